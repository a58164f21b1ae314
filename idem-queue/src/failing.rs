//! Recording a failure under a claim that is held.

use std::time::Duration;

use idem_core::backend::check;
use idem_core::{Effect, Error, ErrorKind, Failure, Idempotency, Result, Work};
use tokio::time::{Instant, sleep, timeout};

/// Most bytes of an error's text that are recorded.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

const PAUSE: Duration = Duration::from_millis(50);

/// A failure with the error's text, as far as it fits.
pub(crate) fn failure(code: &str, text: &str, idempotency: &Idempotency) -> Failure {
    let end = text.floor_char_boundary(MAX_MESSAGE_BYTES);
    let failure = Failure::new(code, &text[..end]);
    match check::failure(&failure, &idempotency.store().limits()) {
        Ok(_) => failure,
        Err(_) => Failure::new(code, ""),
    }
}

/// Records the failure, and repeats the call until the policy's retry time-out: recording the same
/// failure twice succeeds twice.
pub(crate) async fn record(
    idempotency: &Idempotency,
    work: &Work,
    failure: &Failure,
) -> Result<()> {
    let claim = work.claim().ok_or_else(Error::claim_lost)?;
    let policy = idempotency.policy_for(work.key());
    let deadline = check::deadline(policy.retry_timeout());
    loop {
        let store = idempotency.store();
        let call = store.fail(&claim, failure, policy.failure_retention());
        let error = match timeout(policy.retry_timeout() / 2, call).await {
            Ok(Err(error)) if error.is_retryable() => error,
            Ok(result) => return result,
            Err(_) => unanswered(),
        };
        if Instant::now() + PAUSE >= deadline {
            return Err(error);
        }
        sleep(PAUSE).await;
    }
}

fn unanswered() -> Error {
    let message = "no answer in half of the policy's retry_timeout";
    Error::new(ErrorKind::Unavailable, Effect::Unknown, message).at("", "fail")
}
