//! [`Received`]: what becomes of a delivery.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;
use idem_core::{Error, Outcome, RunError, Timestamp};

use crate::Rejection;
use crate::run::{Broken, StoredResult};

/// What becomes of a delivery: `E` is the handler's error.
///
/// | | default status | the provider | stored |
/// | --- | --- | --- | --- |
/// | [`Handled`](Self::Handled) | 200 | is done | sealed |
/// | [`Duplicate`](Self::Duplicate) | 200 | is done | nothing more |
/// | [`Stale`](Self::Stale) | 200 | is done | sealed as refused |
/// | [`Challenge`](Self::Challenge), [`Permitted`](Self::Permitted) | 200 | knows the endpoint | nothing |
/// | [`Rejected`](Self::Rejected) | 401 or 400 | is not proven, or sends what cannot be read | nothing |
/// | [`InFlight`](Self::InFlight) | 409, `Retry-After` | sends again | nothing more |
/// | [`Conflict`](Self::Conflict) | 422 | has used the id for another body | nothing more |
/// | [`Failed`](Self::Failed) | 422 | sends without effect | the failure, from before |
/// | [`Error`](Self::Error) | 500 | sends again | released, unless the policy records errors |
/// | [`NotStored`](Self::NotStored) | 503, `Retry-After` | sends again | not known to be sealed |
/// | [`Store`](Self::Store) | 503, `Retry-After`; 500 where an operator has to act | sends again | not known |
/// | [`Batch`](Self::Batch) | that of an event that is not done; else 200 | sends all again, or is done | each event by itself |
///
/// [`Statuses`](crate::Statuses) of the provider replace the default ones. `Debug` shows neither
/// the challenge nor stored values; it shows the handler's error with that error's own `Debug`.
#[non_exhaustive]
pub enum Received<E> {
    /// The handler ran now, and the store has recorded that.
    Handled,
    /// An earlier delivery was handled: nothing ran.
    Duplicate {
        /// When the store recorded that.
        sealed_at: Timestamp,
    },
    /// It is older than the latest version seen of its source, so it is not handled, now or later.
    Stale {
        /// The latest version seen.
        current: u64,
    },
    /// The provider checks that the endpoint exists, and expects this text back.
    Challenge(String),
    /// A sender of CloudEvents asks for permission to send, and gets it.
    Permitted(Permission),
    /// The signature is wrong, or the event cannot be read.
    Rejected(Rejection),
    /// Another delivery of the event is in progress.
    InFlight {
        /// When the provider may send it again.
        retry_after: Duration,
    },
    /// The id belongs to another body.
    Conflict,
    /// It failed before, for good.
    Failed {
        /// The recorded failure's code.
        code: String,
    },
    /// The handler's error, now.
    Error(E),
    /// The handler has run, but the store may not have recorded that.
    NotStored(Error),
    /// The store did not decide, or has a record that cannot be read
    /// ([`Corrupt`](idem_core::ErrorKind::Corrupt)): an earlier delivery may have been handled. The
    /// handler did not run for this one.
    Store(Error),
    /// What becomes of each event of a batch, in the order of the batch.
    Batch(Vec<Self>),
}

/// The permission that a sender of CloudEvents gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    pub(crate) origin: HeaderValue,
    pub(crate) rate: HeaderValue,
}

impl Permission {
    /// Returns the permitted origin, as the sender stated it.
    #[must_use]
    pub fn origin(&self) -> &HeaderValue {
        &self.origin
    }
}

impl<E> Received<E> {
    pub(crate) fn of(
        result: Result<Outcome<StoredResult>, RunError<Broken<E>, StoredResult>>,
    ) -> Self {
        let failed = match result {
            Ok(outcome) => return Self::sealed(&outcome),
            Err(failed) => failed,
        };
        let retry_after = failed.retry_after().unwrap_or_default();
        match failed {
            RunError::InFlight(_) => Self::InFlight { retry_after },
            RunError::Conflict(_) => Self::Conflict,
            RunError::Failed(failed) => Self::Failed {
                code: failed.failure.code().to_owned(),
            },
            RunError::Work(Broken::Handler(error)) => Self::Error(error),
            RunError::Work(Broken::Mark(error))
            | RunError::Store(error)
            | RunError::Codec(error) => Self::Store(error),
            RunError::NotStored { source, .. } => Self::NotStored(source),
            other => Self::Store(Error::corrupt(other.map_work(|_| "").to_string())),
        }
    }

    fn sealed(outcome: &Outcome<StoredResult>) -> Self {
        match (outcome.as_ref().into_inner(), outcome.first_answered_at()) {
            (StoredResult::Stale { current }, _) => Self::Stale { current: *current },
            (StoredResult::Handled, None) => Self::Handled,
            (StoredResult::Handled, Some(sealed_at)) => Self::Duplicate { sealed_at },
        }
    }

    /// Returns whether the provider need not send it again: it is recorded, or was no event.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match self {
            Self::Handled
            | Self::Duplicate { .. }
            | Self::Stale { .. }
            | Self::Challenge(_)
            | Self::Permitted(_) => true,
            Self::Batch(events) => events.iter().all(Self::is_done),
            _ => false,
        }
    }

    /// Returns whether another delivery may have another answer.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::InFlight { .. } | Self::Error(_) | Self::NotStored(_) | Self::Store(_) => true,
            Self::Batch(events) => events.iter().any(Self::is_retryable),
            _ => false,
        }
    }
}

impl<E: fmt::Debug> fmt::Debug for Received<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handled => f.write_str("Handled"),
            Self::Duplicate { sealed_at } => f
                .debug_struct("Duplicate")
                .field("sealed_at", sealed_at)
                .finish(),
            Self::Stale { current } => f.debug_struct("Stale").field("current", current).finish(),
            Self::Challenge(_) => f.debug_tuple("Challenge").finish_non_exhaustive(),
            Self::Permitted(permission) => f.debug_tuple("Permitted").field(permission).finish(),
            Self::Rejected(rejection) => f.debug_tuple("Rejected").field(rejection).finish(),
            Self::InFlight { retry_after } => f
                .debug_struct("InFlight")
                .field("retry_after", retry_after)
                .finish(),
            Self::Conflict => f.write_str("Conflict"),
            Self::Failed { code } => f.debug_struct("Failed").field("code", code).finish(),
            Self::Error(error) => f.debug_tuple("Error").field(error).finish(),
            Self::NotStored(error) => f.debug_tuple("NotStored").field(error).finish(),
            Self::Store(error) => f.debug_tuple("Store").field(error).finish(),
            Self::Batch(events) => f.debug_tuple("Batch").field(events).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_neither_challenge_nor_stored_text() {
        let stored = idem_core::Response::new(200, "\"SECRET-4242\"");
        let unreadable = stored.from_json::<u8>().unwrap_err();
        for received in [
            Received::<()>::Challenge("SECRET-4242".to_owned()),
            Received::Store(unreadable),
        ] {
            let shown = format!("{received:?} {received:#?}");
            assert!(!shown.contains("SECRET"), "the text is shown");
        }
    }
}
