//! The one error type of the family.

use std::any::type_name_of_val;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::backend::Redacted;

/// A boxed error of any kind, as kept for [`Error::source`](StdError::source).
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller does next about an [`Error`]. The guide has a
/// [table](crate::guide::errors#errors-of-stores).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is outside the documented limits; nothing was sent. Correct it: the same
    /// argument fails again.
    InvalidInput,
    /// The claim is no longer held: another attempt has acquired the key, it was released, its
    /// retention ended, or `fail_abandoned` has failed it. Stop the work; its result is not stored.
    ClaimLost,
    /// The claim is sealed already, with another result than the one given. The stored result
    /// stands; read it with [`get`](crate::IdempotencyStore::get).
    AlreadySealed,
    /// The store lost a race that it may win at once on a retry (deadlock, serialization failure,
    /// lock time-out). A caller's own transaction must be retried as a whole.
    Contention,
    /// The store cannot be reached, is overloaded, restarting, or did not answer in time. Retry
    /// later, with the same attempt id.
    Unavailable,
    /// The store is not set up for this: schema missing or of another version, permission denied,
    /// unsuitable settings. An operator has to act; the message says how.
    Misconfigured,
    /// Stored data cannot be decoded, or an answer made no sense. A person has to examine it.
    Corrupt,
    /// Anything else; see the source.
    Other,
}

/// Whether the failed operation may have changed the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// It has not taken effect and will not.
    None,
    /// It may have taken effect, or may still do so. Repeating it with the same attempt id or claim
    /// is safe, and its answer shows the state.
    Unknown,
}

/// Why an operation of a store did not succeed.
///
/// Neither the message nor the `Debug` form contains a key, a payload or a connection secret. The
/// driver's own error is kept as the [`source`](StdError::source). Its text is in neither form,
/// because a driver's error may quote data: `Debug` shows its type and class, as
/// [`Redacted`] does. A reporter that walks the chain of sources shows the texts; decide before
/// using one.
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    effect: Effect,
    backend: &'static str,
    operation: &'static str,
    message: Cow<'static, str>,
    source: Option<Source>,
}

struct Source {
    error: BoxError,
    type_name: &'static str,
}

impl Error {
    /// Creates an error of this kind. `message` says what was wrong, where, and what to do; it must
    /// not contain keys, payloads or secrets.
    #[must_use]
    pub fn new(kind: ErrorKind, effect: Effect, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Repr {
            kind,
            effect,
            backend: "",
            operation: "",
            message: message.into(),
            source: None,
        }))
    }

    /// Creates an error for an argument outside its limits; nothing was sent.
    #[must_use]
    pub fn invalid_input(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidInput, Effect::None, message)
    }

    /// Creates an error for a claim that the caller does not hold any more; nothing was changed.
    #[must_use]
    pub fn claim_lost() -> Self {
        Self::new(
            ErrorKind::ClaimLost,
            Effect::None,
            "the claim is no longer held: the key was acquired by another attempt, released, \
             failed by a sweep, or its retention ended",
        )
    }

    /// Creates an error for a claim that is sealed with another result; nothing was changed.
    #[must_use]
    pub fn already_sealed() -> Self {
        Self::new(
            ErrorKind::AlreadySealed,
            Effect::None,
            "the claim is sealed already with a different result; the stored one stands, read it \
             with `get`",
        )
    }

    /// Creates an error for stored data that cannot be decoded.
    #[must_use]
    pub fn corrupt(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, Effect::None, message)
    }

    /// Adds the error underneath. `Display` and `Debug` never show its text.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        let type_name = type_name_of_val(&source);
        self.0.source = Some(Source {
            error: source.into(),
            type_name,
        });
        self
    }

    /// Sets the backend and the operation; the first call wins.
    #[must_use]
    pub fn at(mut self, backend: &'static str, operation: &'static str) -> Self {
        if self.0.backend.is_empty() {
            self.0.backend = backend;
        }
        if self.0.operation.is_empty() {
            self.0.operation = operation;
        }
        self
    }

    /// Replaces the message.
    pub(crate) fn with_message(mut self, message: String) -> Self {
        self.0.message = message.into();
        self
    }

    /// Returns the message, without backend and operation.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// Sets the effect.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.0.effect = effect;
        self
    }

    /// Returns one error for each item of a batch that failed as a whole, all with this one as
    /// their source.
    pub fn for_each_item(self) -> impl Fn() -> Self {
        let shared = Arc::new(self);
        move || {
            let Repr {
                kind,
                effect,
                backend,
                operation,
                ..
            } = *shared.0;
            Self::new(kind, effect, "the batch failed")
                .at(backend, operation)
                .with_source(Arc::clone(&shared))
        }
    }

    /// Returns what a caller does next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the operation may have changed the store.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// Returns whether the same call, with the same attempt id or claim, may succeed when repeated.
    ///
    /// Inside a caller's own transaction, the whole transaction must be repeated.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Contention | ErrorKind::Unavailable)
    }

    /// Returns whether this is [`ErrorKind::ClaimLost`].
    #[must_use]
    pub fn is_claim_lost(&self) -> bool {
        self.0.kind == ErrorKind::ClaimLost
    }

    /// Returns the backend that reported it, such as `postgres`; empty where none was involved.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.0.backend
    }

    /// Returns the operation that failed, such as `claim`; empty where none was involved.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.backend, self.0.operation) {
            ("", "") => {}
            (backend, "") => write!(f, "{backend}: ")?,
            ("", operation) => write!(f, "{operation}: ")?,
            (backend, operation) => write!(f, "{backend} {operation}: ")?,
        }
        f.write_str(&self.0.message)?;
        if self.0.effect == Effect::Unknown {
            f.write_str(" (it may have taken effect)")?;
        }
        Ok(())
    }
}

/// Begins with the whole message: a `main` that returns the error prints this form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("message", &self.to_string())
            .field("kind", &self.0.kind)
            .field("effect", &self.0.effect)
            .field("source", &self.0.source)
            .finish()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Redacted::new(&*self.error)
            .with_type_name(self.type_name)
            .fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &*source.error as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_backend_operation_and_an_unknown_effect() {
        let error = Error::new(ErrorKind::Unavailable, Effect::Unknown, "no answer in 5 s")
            .at("postgres", "claim")
            .at("hybrid", "claim");
        assert_eq!(
            error.to_string(),
            "postgres claim: no answer in 5 s (it may have taken effect)"
        );
        assert!(error.is_retryable());
    }

    #[test]
    fn every_item_of_a_failed_batch_gets_the_error() {
        let each = Error::new(ErrorKind::Contention, Effect::None, "deadlock")
            .at("postgres", "claim_many")
            .for_each_item();
        for error in [each(), each()] {
            assert_eq!(error.to_string(), "postgres claim_many: the batch failed");
            assert_eq!(
                error.source().unwrap().to_string(),
                "postgres claim_many: deadlock"
            );
            assert!(error.is_retryable());
        }
    }

    #[test]
    fn source_is_kept_and_not_printed_twice() {
        let error = Error::corrupt("the record cannot be read")
            .with_source(std::io::Error::other("the cause"));
        assert_eq!(error.to_string(), "the record cannot be read");
        assert_eq!(error.source().unwrap().to_string(), "the cause");
    }

    #[test]
    fn neither_form_shows_the_source_s_text() {
        const SECRET: &str = "SECRET-4242";
        let source = serde_json::from_str::<u8>(&format!("\"{SECRET}\"")).unwrap_err();
        let error = Error::corrupt("the record cannot be read").with_source(source);
        let batched = error.for_each_item()();
        let shown = format!("{batched} {batched:#} {batched:?} {batched:#?}");
        assert!(!shown.contains(SECRET), "the forms show the secret");
        assert!(shown.contains("category: Data"), "{shown}");
        let mut chain = batched.source();
        let mut texts = Vec::new();
        while let Some(error) = chain {
            texts.push(error.to_string());
            chain = error.source();
        }
        let last = texts.last().unwrap();
        assert!(last.contains(SECRET), "the source itself shows it");
    }

    #[test]
    fn debug_names_the_type_of_the_source() {
        let error = Error::corrupt("the record cannot be read").with_source(fmt::Error);
        assert!(
            format!("{error:?}").contains("source: Some(core::fmt::Error { .. })"),
            "{error:?}"
        );
    }
}
