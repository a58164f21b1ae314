//! [`Error`]: why a request was not sent, or has no answer.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use idem_core::backend::Redacted;
use idem_core::{BoxError, Effect};

/// What a caller does next about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request cannot carry a key, cannot be repeated, or its intent has no valid name. Correct
    /// the caller; nothing was sent.
    InvalidRequest,
    /// The request has no intent, and this client refuses such requests. Nothing was sent.
    IntentMissing,
    /// The intent has its key for another request. Nothing was sent: give the other request an
    /// intent of its own.
    IntentChanged,
    /// The server may have forgotten the answer, so a repeat could take effect a second time.
    /// Nothing was sent. Look up at the server whether the effect happened. If it did not, use a
    /// new intent.
    IntentExpired,
    /// The keys could not be read or written. Nothing was sent; try again with the same intent.
    KeysUnavailable,
    /// Somebody has to change something; the message says what. Nothing was sent.
    Misconfigured,
    /// The kept keys cannot be read. Nothing was sent; a person has to examine them.
    Corrupt,
    /// The request was sent and has no answer: it may have taken effect. Try again with the same
    /// intent.
    NoAnswer,
}

/// Why a request was not sent, or has no answer.
///
/// Neither `Display` nor `Debug` shows an intent, a key, a URL or a body. The error underneath is
/// the [`source`](StdError::source).
pub struct Error {
    kind: ErrorKind,
    effect: Effect,
    message: Cow<'static, str>,
    source: Option<BoxError>,
}

impl Error {
    /// Creates an error; implementations of [`IntentKeys`](crate::IntentKeys) need it. The message
    /// must not quote an intent or a key.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        // An intent that is too old was sent before.
        let effect = match kind {
            ErrorKind::NoAnswer | ErrorKind::IntentExpired => Effect::Unknown,
            _ => Effect::None,
        };
        Self {
            kind,
            effect,
            message: message.into(),
            source: None,
        }
    }

    /// Adds the error underneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns what a caller does next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether this intent may have taken effect at the server: by this call, or, for an
    /// [expired](ErrorKind::IntentExpired) one, by an earlier call.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Returns whether the same request with the same intent may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::KeysUnavailable | ErrorKind::NoAnswer)
    }

    /// Returns the error of this crate inside of one of `reqwest-middleware`, if there is one.
    #[cfg(feature = "reqwest")]
    #[must_use]
    pub fn of(error: &reqwest_middleware::Error) -> Option<&Self> {
        match error {
            reqwest_middleware::Error::Middleware(error) => error.downcast_ref(),
            reqwest_middleware::Error::Reqwest(_) => None,
        }
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidRequest, message)
    }

    pub(crate) fn no_answer(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::NoAnswer, message)
    }

    pub(crate) fn corrupt(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    pub(crate) fn changed() -> Self {
        Self::new(
            ErrorKind::IntentChanged,
            "the intent was used for another request: method, server, path, query or body differ",
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.effect {
            Effect::None => Ok(()),
            _ => f.write_str(" (it may have taken effect)"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.as_ref().map(|source| Redacted::new(&**source));
        f.debug_struct("Error")
            .field("kind", &self.kind)
            .field("effect", &self.effect)
            .field("message", &self.message)
            .field("source", &source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_the_source_is_only_in_the_source() {
        let error = Error::no_answer("no answer").with_source("https://user:secret@bank.example");
        let shown = format!("{error} {error:?} {error:#?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(error.source().unwrap().to_string().contains("secret"));
        assert_eq!(error.to_string(), "no answer (it may have taken effect)");
    }

    #[test]
    fn only_what_may_succeed_later_is_retryable() {
        assert!(Error::no_answer("").is_retryable());
        assert!(!Error::changed().is_retryable());
        assert_eq!(Error::changed().effect(), Effect::None);
        let expired = Error::new(ErrorKind::IntentExpired, "");
        assert!(!expired.is_retryable());
        assert_eq!(expired.effect(), Effect::Unknown);
    }
}
