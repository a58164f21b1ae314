//! [`Presented`]: the signatures that a delivery carries.

/// The signatures of a delivery, of which one has to be valid, and the time of signing that it
/// states.
pub(crate) struct Presented {
    pub(crate) signatures: Vec<[u8; 32]>,
    pub(crate) time: Option<u64>,
}
