//! The stored outcome of an event, and the raising of its source's mark.

use std::fmt;
use std::time::Duration;

use idem_core::backend::check;
use idem_core::{Advance, Effect, Error, ErrorKind, Idempotency, Key, Policy, Result};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};

/// The stored outcome of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(crate) enum StoredResult {
    Handled,
    Stale { current: u64 },
}

/// Why an event has no stored outcome.
pub(crate) enum Broken<E> {
    /// The mark could not be raised, so the handler did not run.
    Mark(Error),
    Handler(E),
}

impl<E: fmt::Display> fmt::Display for Broken<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mark(error) => error.fmt(f),
            Self::Handler(error) => error.fmt(f),
        }
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Raises the mark of the source, and repeats the call until the policy's retry time-out: a
/// repeated advance has no further effect.
pub(crate) async fn advance(
    idempotency: &Idempotency,
    policy: &Policy,
    source: &Key,
    version: u64,
) -> Result<Advance> {
    let marks = idempotency.store().watermarks().ok_or_else(no_watermarks)?;
    let deadline = check::deadline(policy.retry_timeout());
    let mut pause = FIRST_PAUSE;
    loop {
        let call = marks.advance(source, version, policy.retention());
        let error = match timeout(policy.retry_timeout() / 2, call).await {
            Ok(Err(error)) if error.is_retryable() => error,
            Ok(result) => return result,
            Err(_) => unanswered(),
        };
        if Instant::now() + pause >= deadline {
            return Err(error);
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

pub(crate) fn no_watermarks() -> Error {
    let message = "this store keeps no watermarks, so it cannot refuse what comes out of order";
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

fn unanswered() -> Error {
    let message = "no answer in half of the policy's retry_timeout";
    Error::new(ErrorKind::Unavailable, Effect::Unknown, message).at("", "advance")
}
