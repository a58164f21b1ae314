use std::fmt::Display;

/// The result of every fallible function here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No container engine answers, or a licence is not accepted: a test may be left out.
    Missing,
    /// The engine answers, and the server does not start.
    Failed,
}

/// Why there is no container. The message contains the cause, and of a server that ended its log.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn missing(message: impl Display) -> Self {
        Self::new(ErrorKind::Missing, &message)
    }

    pub(crate) fn failed(message: impl Display) -> Self {
        Self::new(ErrorKind::Failed, &message)
    }

    /// No engine answers.
    pub(crate) fn no_engine(reason: impl Display) -> Self {
        Self::missing(format!("no container engine: {reason}"))
    }

    fn new(kind: ErrorKind, message: &dyn Display) -> Self {
        let message = message.to_string();
        Self { kind, message }
    }

    pub(crate) fn with(mut self, log: &str) -> Self {
        self.message += log;
        self
    }

    /// Returns what a caller may do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}
