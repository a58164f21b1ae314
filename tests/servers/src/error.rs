use std::error::Error as StdError;
use std::fmt;

/// The result of every fallible function here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No source has such a server; the message says how to get one.
    Missing,
    /// A server or tool exists and failed, or a setting is wrong.
    Failed,
}

/// Why a server is not running.
#[derive(thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Creates an error for a missing server; the message names it and says how to get it.
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Missing, message)
    }

    /// Creates an error for a failed action or a wrong setting.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns what a caller may do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// Prints the message with its causes, as `main` and a failed test show it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut causes = std::iter::successors(self.source(), |&error| error.source());
        causes.try_for_each(|cause| write!(f, ": {cause}"))
    }
}

/// Turns an error into a failure that names the action.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::failed(what()).with_source(error))
    }
}
