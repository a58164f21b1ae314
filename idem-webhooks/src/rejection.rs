//! [`Rejection`]: why a delivery is refused.

/// Why the receiver refuses a delivery before anything is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A header that carries the signature or its time is missing.
    #[error("the signature is missing")]
    Unsigned,
    /// The signature or its time cannot be read, or occurs twice.
    #[error("the signature is malformed")]
    MalformedSignature,
    /// No secret gives this signature: another party signed it, or it was changed in transit.
    #[error("the signature is wrong")]
    WrongSignature,
    /// Signed longer ago than the tolerance: a captured delivery was replayed, or a clock is wrong.
    #[error("the signature is too old")]
    TooOld,
    /// Signed further in the future than the tolerance: a clock is wrong.
    #[error("the signature is from the future")]
    TooNew,
    /// Signed, but without an event id that can be stored.
    #[error("the event has no usable id")]
    NoId,
    /// Signed, but the body is not in this provider's format.
    #[error("the event cannot be read")]
    Malformed,
}

impl Rejection {
    /// Returns 401 when the provider is not proven to be the sender, and 400 for a proven delivery
    /// that cannot be read.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::NoId | Self::Malformed => 400,
            _ => 401,
        }
    }
}
