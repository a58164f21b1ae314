//! [`WorkError`]: whether a retry may help.

use std::fmt;

use idem_core::BoxError;
use idem_core::backend::Redacted;

/// Why work was not done. `?` turns every other error into [`Temporary`](Self::Temporary), so that
/// the message is tried again when in doubt.
///
/// Neither `Display` nor `Debug` shows the text of the work's own error, which may quote the
/// message; the error is the [`source`](std::error::Error::source).
#[derive(thiserror::Error)]
pub enum WorkError {
    /// It may work later: a service is down, a lock is held, a limit is reached. The message is
    /// released and delivered again.
    #[error("a temporary error of the work")]
    Temporary(#[source] BoxError),
    /// It will never work, such as a message that makes no sense. It is recorded as failed, and not
    /// delivered again.
    #[error("a permanent error of the work")]
    Permanent(#[source] BoxError),
}

impl WorkError {
    /// Creates an error that a retry may resolve.
    #[must_use]
    pub fn temporary(error: impl Into<BoxError>) -> Self {
        Self::Temporary(error.into())
    }

    /// Creates an error that no retry resolves.
    #[must_use]
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self::Permanent(error.into())
    }
}

impl fmt::Debug for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, error) = match self {
            Self::Temporary(error) => ("Temporary", error),
            Self::Permanent(error) => ("Permanent", error),
        };
        f.debug_tuple(name).field(&Redacted::new(&**error)).finish()
    }
}

impl From<BoxError> for WorkError {
    /// Keeps a `WorkError` as it is; any other error is temporary.
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

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn text_of_the_work_s_error_is_its_source_only() {
        for error in [
            WorkError::temporary("SECRET-4242"),
            WorkError::permanent("SECRET-4242"),
        ] {
            let shown = format!("{error} {error:?} {error:#?}");
            assert!(!shown.contains("SECRET"), "the text is shown");
            assert_eq!(error.source().unwrap().to_string(), "SECRET-4242");
        }
    }
}
