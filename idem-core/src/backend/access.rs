//! [`Access`]: what an operation that failed may have done.

use std::time::Duration;

use super::codes::Meaning;
use crate::{BoxError, Effect, Error, ErrorKind};

/// What has been sent to the server so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing yet, or only reads.
    Read,
    /// A statement that writes.
    Write,
}

impl Access {
    /// Returns the effect of an operation that failed without an answer that says more.
    #[must_use]
    pub fn effect(self) -> Effect {
        match self {
            Self::Read => Effect::None,
            Self::Write => Effect::Unknown,
        }
    }

    /// Converts an error of the driver or the server, which stays as the source. A read had no
    /// effect.
    #[must_use]
    pub fn error(self, meaning: Meaning, source: impl Into<BoxError>) -> Error {
        let (kind, effect, message) = meaning;
        let effect = match self {
            Self::Read => Effect::None,
            Self::Write => effect,
        };
        Error::new(kind, effect, message).with_source(source)
    }

    /// Returns the error of an operation that exceeded the store's time-out: `Unavailable`.
    #[must_use]
    pub fn timed_out(self, timeout: Duration) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            self.effect(),
            format!(
                "no answer within {} ms; a lock is held, or the server is overloaded",
                timeout.as_millis()
            ),
        )
    }

    /// Returns the error of an operation that got none of `max` connections in time: `Unavailable`,
    /// without effect.
    #[must_use]
    pub fn without_connection(timeout: Duration, max: usize) -> Error {
        let text = format!(
            "no connection within {} ms: all {max} are in use, or the server or a proxy before it \
             lets no more in; make the pool as large as they allow",
            timeout.as_millis()
        );
        Error::new(ErrorKind::Unavailable, Effect::None, text)
    }
}
