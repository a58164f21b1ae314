//! Further keys of one run.

use super::context::Context;
use super::lease::Lease;
use super::wait::{Claimed, claim};
use super::{BusyPolicy, Work};
use crate::{
    ClaimRequest, Effect, Error, ErrorKind, Failed, FailedPolicy, Failure, Key, Metadata, Response,
    Result, StalePolicy,
};

impl Work {
    /// Makes the result of this run available under another key, too: for work that changes the
    /// caller's identity, so that a retry comes with another scope. A run without a key gets no
    /// alias.
    ///
    /// Call it before the effect, as soon as the other key is known. If it returns a response, a
    /// killed earlier run had sealed that: the work is done, and [the
    /// response](crate::Response::from_json) holds the value to return.
    ///
    /// The other key is claimed and held as long as the run's own, and ends in the same way: sealed
    /// first, with the same result, or given up. If the process is killed meanwhile, the next
    /// caller with either key takes the run over under the first one. So the
    /// [derived](Self::derive) keys stay the same. It cannot be combined with retried failures
    /// ([`FailedPolicy::Retry`](crate::FailedPolicy::Retry)).
    ///
    /// # Errors
    ///
    /// [`ClaimLost`](ErrorKind::ClaimLost) when the run itself has lost its claim.
    /// [`Contention`](ErrorKind::Contention) when another run works under the other key: stop, and
    /// try again later. [`InvalidInput`](ErrorKind::InvalidInput) when the key is in use for
    /// another request. Those of the store.
    ///
    /// # Cancellation
    ///
    /// The other key is free, or held until its lease ends.
    pub async fn add_alias(&self, key: &Key) -> Result<Option<Response>> {
        let Some(lease) = self.lease() else {
            return Ok(None);
        };
        if key == self.key() {
            return Ok(None);
        }
        let (context, request) = self.also(lease, key);
        let mut claimed = claim(&context, &request).await?;
        // A caller that finds the claim of a dead run gets that failure; the next claim may try
        // again.
        if matches!(&claimed, Claimed::Failed(failed) if first_key(failed).as_ref() == Some(self.key()))
        {
            claimed = claim(&context, &request).await?;
        }
        match claimed {
            Claimed::Held(mut held) => {
                if self.is_lost() {
                    let message = "the run's own claim is lost";
                    return Err(Error::new(ErrorKind::ClaimLost, Effect::None, message));
                }
                held.start();
                lease.add_follower(held);
                Ok(None)
            }
            Claimed::Completed(completed) => Ok(Some(completed.response)),
            Claimed::Conflict(_) => Err(Error::invalid_input(
                "the other key is in use for a different request",
            )),
            Claimed::InFlight(_) | Claimed::Failed(_) => Err(Error::new(
                ErrorKind::Contention,
                Effect::None,
                "somebody else works under the other key",
            )),
        }
    }

    /// Returns a claim that only the work that it belongs to takes over; it waits for its own dead
    /// attempts.
    fn also(&self, own: &Lease, key: &Key) -> (Context, ClaimRequest) {
        let context = &own.context;
        let lease = context.policy.lease();
        let waits = BusyPolicy::wait(lease.saturating_add(lease / 2));
        let context = context.with_policy(context.policy.as_ref().clone().with_on_busy(waits));
        let request = ClaimRequest::new(key.clone(), own.fingerprint)
            .with_lease(lease)
            .with_retention(context.policy.failure_retention())
            .with_on_stale(StalePolicy::Fail)
            .with_on_failed(FailedPolicy::Retry)
            .with_metadata(pointing_at(self.key()));
        (context, request)
    }
}

/// The entry of a record's metadata that names the first key of its run.
const FIRST_KEY: &str = "idem.first_key";

fn pointing_at(first: &Key) -> Metadata {
    match serde_json::to_string(first) {
        Ok(text) => Metadata::new().with(FIRST_KEY, text),
        Err(_) => Metadata::new(),
    }
}

/// Returns the key under which a run continues that was abandoned under this one.
pub(super) fn first_key(failed: &Failed) -> Option<Key> {
    let is_abandoned = failed.failure.code() == Failure::ABANDONED;
    let text = failed
        .info
        .metadata
        .get(FIRST_KEY)
        .filter(|_| is_abandoned)?;
    serde_json::from_str(text).ok()
}
