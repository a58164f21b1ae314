//! Recording a failure under a claim that is held, and counting tries.

use std::time::Duration;

use idem_core::backend::check;
use idem_core::{
    ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Fingerprint, Idempotency, Key,
    Metadata, Result, Work,
};
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

/// Counts a try of the work, and returns how many there were; fewer where the store does not answer.
///
/// Each claim takes over the one before it, whose lease has long ended, and is one attempt more.
pub(crate) async fn tries(idempotency: &Idempotency, key: &Key) -> u32 {
    let policy = idempotency.policy_for(key);
    let request = ClaimRequest::new(key.derive("idem-queue/tries"), Fingerprint::raw("tries"))
        .with_lease(Duration::from_millis(1))
        .with_retention(policy.failure_retention())
        .with_metadata(Metadata::new().with("idem-queue", "counts tries"));
    let counting = async {
        loop {
            match idempotency.store().claim(&request).await {
                Ok(ClaimOutcome::Acquired(claim)) => return claim.attempts(),
                Ok(ClaimOutcome::InFlight(_)) => sleep(Duration::from_millis(1)).await,
                _ => return 0,
            }
        }
    };
    let counted = timeout(policy.retry_timeout() / 2, counting).await;
    counted.unwrap_or_default()
}

fn unanswered() -> Error {
    let message = "no answer in half of the policy's retry_timeout";
    Error::new(ErrorKind::Unavailable, Effect::Unknown, message).at("", "fail")
}
