//! [`Rejection`]: why a delivery is not looked at further.

/// Why a delivery is refused before anything is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A header that carries the signature or its time is missing.
    #[error("the signature is missing")]
    Unsigned,
    /// The signature or its time cannot be read, or is there twice.
    #[error("the signature is malformed")]
    MalformedSignature,
    /// No secret gives this signature: somebody else signed it, or it was changed on its way.
    #[error("the signature is wrong")]
    WrongSignature,
    /// Signed longer ago than the tolerance: a replay of something that was caught, or a clock that
    /// is off.
    #[error("the signature is too old")]
    TooOld,
    /// Signed further in the future than the tolerance: a clock is off.
    #[error("the signature is from the future")]
    TooNew,
    /// Signed, but without an event id that can be kept.
    #[error("the event has no usable id")]
    NoId,
    /// Signed, but the body is not what this provider sends.
    #[error("the event cannot be read")]
    Malformed,
}

impl Rejection {
    /// 401 for what is not proven to come from the provider, 400 for what is and cannot be read.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::NoId | Self::Malformed => 400,
            _ => 401,
        }
    }
}
