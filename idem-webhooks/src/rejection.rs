//! [`Rejection`]: why a delivery is refused.

/// Why the receiver refuses a delivery before anything is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A header that carries the signature or its time is missing, or the application has not
    /// named the [`Sender`](crate::Sender) that it verified.
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
    /// A CloudEvent in a format other than JSON.
    #[error("the format of the event is not supported")]
    UnsupportedFormat,
    /// An `OPTIONS` request, where the receiver permits nothing by it.
    #[error("the method is not allowed")]
    MethodNotAllowed,
}

impl Rejection {
    /// Returns whether the provider is not proven to be the sender.
    #[must_use]
    pub fn is_unverified(self) -> bool {
        match self {
            Self::Unsigned
            | Self::MalformedSignature
            | Self::WrongSignature
            | Self::TooOld
            | Self::TooNew => true,
            Self::NoId | Self::Malformed | Self::UnsupportedFormat | Self::MethodNotAllowed => {
                false
            }
        }
    }
}
