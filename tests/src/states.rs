//! Keys in every state that a claim may meet.

use std::time::Duration;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, FailedPolicy, Failure, IdempotencyStore, Response,
    StalePolicy,
};

use crate::secrets::secret;
use crate::{CaseResult, Context};

const HOUR: Duration = Duration::from_secs(3600);

/// A claim, and its expected outcome.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The claim, of a key in some state.
    pub request: ClaimRequest,
    /// The outcome as [`described`].
    pub returned: &'static str,
}

/// Returns the outcome's name; for an acquisition with its number since the key was fresh:
/// `acquired 1`.
#[must_use]
pub fn described(outcome: &ClaimOutcome) -> String {
    match outcome {
        ClaimOutcome::Acquired(claim) => format!("acquired {}", claim.attempts()),
        other => other.name().to_owned(),
    }
}

impl Context {
    /// Returns a claim of a key in each state. The keys are of one operation, and their ids end
    /// with `series`.
    ///
    /// # Errors
    ///
    /// The store's error; an error when a key does not reach its state.
    pub async fn claims_in_every_state(&self, series: &str) -> CaseResult<Vec<Expected>> {
        let store = self.store();
        let request = |name: &str| self.request(&self.key(format!("{name}-{series}")));
        let hold = async |name: &str| self.claim(&request(name)).await;
        let seal = async |claim: Claim, retention| {
            let done = Response::new(200, secret("done"));
            store.complete(&claim, &done, retention).await
        };
        let fail = async |claim: Claim| {
            store
                .fail(&claim, &Failure::new("no", secret("no")), HOUR)
                .await
        };

        seal(hold("completed").await?, HOUR).await?;
        seal(hold("another's").await?, HOUR).await?;
        fail(hold("failed").await?).await?;
        fail(hold("retried").await?).await?;
        let _held = hold("held").await?;
        store.release(&hold("released").await?).await?;
        seal(hold("expired").await?, self.short()).await?;
        for name in ["stale", "stale-fails", "stale-another's"] {
            self.leave_stale(&request(name)).await?;
        }
        let own = request("own");
        let _own = self.claim(&own).await?;
        self.until_free(request("expired").key()).await?;
        let other = |name: &str| self.other_request(request(name).key());
        let retried = request("retried").with_on_failed(FailedPolicy::Retry);
        let fails = request("stale-fails").with_on_stale(StalePolicy::Fail);
        let expected = [
            (request("fresh"), "acquired 1"),
            (request("completed"), "completed"),
            (other("another's"), "conflict"),
            (request("failed"), "failed"),
            (retried, "acquired 2"),
            (request("held"), "in_flight"),
            (request("released"), "acquired 1"),
            (request("expired"), "acquired 1"),
            (request("stale"), "acquired 2"),
            (fails, "failed"),
            (other("stale-another's"), "conflict"),
            (own, "acquired 1"),
        ];
        let expected = expected.map(|(request, returned)| Expected { request, returned });
        Ok(expected.into())
    }
}
