//! [`Presented`]: what a delivery says of its signature.

/// The signatures of a delivery, of which one has to be right, and when it says that it was signed.
pub(crate) struct Presented {
    pub(crate) signatures: Vec<[u8; 32]>,
    pub(crate) time: Option<u64>,
}
