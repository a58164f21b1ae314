//! [`WorkError`]: whether trying again may help.

use idem_core::BoxError;

/// Why work was not done. Every other error becomes [`Temporary`](Self::Temporary) by `?`: when in doubt, it is tried
/// again.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// It may work later: a service that is away, a lock, a limit. The message is released and comes again.
    #[error("a temporary error: {0}")]
    Temporary(#[source] BoxError),
    /// It will never work: the message makes no sense. It is recorded as failed, and does not come again.
    #[error("a permanent error: {0}")]
    Permanent(#[source] BoxError),
}

impl WorkError {
    /// It may work later.
    #[must_use]
    pub fn temporary(error: impl Into<BoxError>) -> Self {
        Self::Temporary(error.into())
    }

    /// It will never work.
    #[must_use]
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self::Permanent(error.into())
    }
}

impl From<BoxError> for WorkError {
    /// As it is if it is one of these; temporary otherwise.
    fn from(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(known) => *known,
            Err(other) => Self::Temporary(other),
        }
    }
}

impl From<std::io::Error> for WorkError {
    fn from(error: std::io::Error) -> Self {
        Self::temporary(error)
    }
}

impl From<idem_core::Error> for WorkError {
    fn from(error: idem_core::Error) -> Self {
        Self::temporary(error)
    }
}
