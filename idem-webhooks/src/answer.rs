//! [`Answer`]: what becomes of a delivery, and the response to its provider.

use std::fmt;
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use idem_core::{Bytes, Error, Outcome, RunError, Timestamp};

use crate::Rejection;
use crate::run::{Broken, StoredResult};

/// What becomes of a delivery: `E` is the handler's error.
///
/// | | status | the provider | stored |
/// | --- | --- | --- | --- |
/// | [`Handled`](Self::Handled) | 200 | is done | sealed |
/// | [`Duplicate`](Self::Duplicate) | 200 | is done | nothing more |
/// | [`Stale`](Self::Stale) | 200 | is done | sealed as refused |
/// | [`Challenge`](Self::Challenge) | 200 and the text | knows the endpoint | nothing |
/// | [`Rejected`](Self::Rejected) | 401 or 400 | is not proven, or sends what cannot be read | nothing |
/// | [`InFlight`](Self::InFlight) | 409, `Retry-After` | sends again | nothing more |
/// | [`Conflict`](Self::Conflict) | 422 | has used the id for another body | nothing more |
/// | [`Failed`](Self::Failed) | 422 | sends without effect | the failure, from before |
/// | [`Error`](Self::Error) | 500 | sends again | released, unless the policy records errors |
/// | [`NotStored`](Self::NotStored) | 503, `Retry-After` | sends again | not known to be sealed |
/// | [`Store`](Self::Store) | 503, `Retry-After`; 500 where an operator has to act | sends again | not known |
///
/// `Debug` shows neither the challenge nor stored values; it shows the handler's error with that
/// error's own `Debug`.
#[non_exhaustive]
pub enum Answer<E> {
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
    /// Slack checks that the endpoint exists, and expects this text back.
    Challenge(String),
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
    /// The store did not decide; the handler did not run.
    Store(Error),
}

impl<E: fmt::Debug> fmt::Debug for Answer<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handled => f.write_str("Handled"),
            Self::Duplicate { sealed_at } => f
                .debug_struct("Duplicate")
                .field("sealed_at", sealed_at)
                .finish(),
            Self::Stale { current } => f.debug_struct("Stale").field("current", current).finish(),
            Self::Challenge(_) => f.debug_tuple("Challenge").finish_non_exhaustive(),
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
        }
    }
}

/// When the provider may retry while the store is unreachable.
const AFTER_OUTAGE: Duration = Duration::from_secs(5);

impl<E> Answer<E> {
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

    /// Returns the status for the provider: 2xx only for a recorded event, and for a challenge.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Handled | Self::Duplicate { .. } | Self::Stale { .. } | Self::Challenge(_) => {
                StatusCode::OK
            }
            Self::Rejected(rejection) => {
                StatusCode::from_u16(rejection.status()).unwrap_or(StatusCode::UNAUTHORIZED)
            }
            Self::InFlight { .. } => StatusCode::CONFLICT,
            Self::Conflict | Self::Failed { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Store(error) if !error.is_retryable() => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Error(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotStored(_) | Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns when the provider may send again, if that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::InFlight { retry_after } => Some(*retry_after),
            Self::NotStored(_) => Some(AFTER_OUTAGE),
            Self::Store(error) if error.is_retryable() => Some(AFTER_OUTAGE),
            _ => None,
        }
    }

    /// Returns the response for the provider: plain text that contains nothing of the store's
    /// records or the handler's error.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(self.text());
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(pause) = self.retry_after() {
            // Whole seconds, rounded up: a retry that comes a little late finds the lease ended.
            let more = u64::from(pause.subsec_nanos() > 0);
            let seconds = pause.as_secs().saturating_add(more);
            headers.insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        response
    }

    fn text(&self) -> Bytes {
        let text = match self {
            Self::Handled => "handled",
            Self::Duplicate { .. } => "handled before",
            Self::Stale { .. } => "older than what was seen before, not handled",
            Self::Challenge(challenge) => return challenge.clone().into(),
            Self::Rejected(rejection) => return rejection.to_string().into(),
            Self::InFlight { .. } => "being handled",
            Self::Conflict => "this id belongs to another event",
            Self::Failed { .. } => "failed before",
            Self::Error(_) => "not handled",
            Self::NotStored(_) => "not known to be handled",
            Self::Store(_) => "cannot be handled now",
        };
        Bytes::from_static(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_neither_challenge_nor_stored_text() {
        let stored = idem_core::Response::new(200, "\"SECRET-4242\"");
        let unreadable = stored.from_json::<u8>().unwrap_err();
        for answer in [
            Answer::<()>::Challenge("SECRET-4242".to_owned()),
            Answer::Store(unreadable),
        ] {
            let shown = format!("{answer:?} {answer:#?}");
            assert!(!shown.contains("SECRET"), "the text is shown");
        }
    }
}
