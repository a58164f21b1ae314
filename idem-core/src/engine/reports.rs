//! Reports of claims to the observers.

use std::time::Duration;

use super::context::{Context, in_time};
use super::ending::Ending;
use super::lease::Lease;
use super::observe::{self, LeaseLoss};
use crate::{Key, Record, Result};

impl Context {
    /// Reports that a claim is lost, once.
    pub(super) fn report_loss(&self, lease: &Lease, loss: LeaseLoss) {
        if lease.is_first_loss() {
            self.observers.lease_lost(lease.key(), loss);
        }
    }

    /// Reports the same if the lease is over by the clock.
    pub(super) fn report_expiry(&self, lease: &Lease) {
        if !self.observers.is_empty() && lease.has_passed() {
            self.report_loss(lease, LeaseLoss::Expired);
        }
    }

    /// Reports the result of a claim's last step.
    pub(super) fn report_ended(&self, lease: &Lease, ending: &Ending, result: &Result<()>) {
        if self.observers.is_empty() {
            return;
        }
        let key = lease.key();
        let ended = match (ending, result) {
            (_, Err(error)) => {
                if error.is_claim_lost() && !matches!(ending, Ending::Release) {
                    self.report_loss(lease, LeaseLoss::Overtaken);
                }
                observe::Ending::Unsettled
            }
            (Ending::Complete(_) | Ending::Sealed(_), Ok(())) => {
                return match lease.first_seen() {
                    Some(first) => self.observers.sealed(key, Some(first.elapsed())),
                    None => self.report_sealed_at_last(key.clone()),
                };
            }
            (Ending::Fail(_) | Ending::NotStored, Ok(())) => observe::Ending::Failed,
            (Ending::Release, Ok(())) => observe::Ending::Released,
            (Ending::LetExpire, Ok(())) => observe::Ending::LetExpire,
        };
        let error = result.as_ref().err().map(crate::Error::kind);
        self.observers.ended_without(key, ended, error);
    }

    /// Reports the seal of a key that another process or attempt saw first: the record knows when.
    fn report_sealed_at_last(&self, key: Key) {
        let context = self.clone();
        let report = async move {
            let since = context.since_first_seen(&key).await;
            context.observers.sealed(&key, since);
        };
        self.runtime.spawn(self.observers.around(report));
    }

    async fn since_first_seen(&self, key: &Key) -> Option<Duration> {
        let limit = self.policy.try_limit();
        match in_time(limit, "get", self.store().get(key)).await.ok()?? {
            Record::Completed(completed) => {
                let created_at = completed.info.created_at;
                Some(completed.sealed_at.saturating_since(created_at))
            }
            Record::InFlight(_) | Record::Failed(_) => None,
        }
    }
}
