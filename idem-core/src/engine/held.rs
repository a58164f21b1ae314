//! [`Held`]: a claim that a run holds, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::context::{Context, Doubt, in_time_since};
use super::ending::Ending;
use super::heartbeat::Heartbeat;
use super::lease::{Follower, Lease};
use super::run::cancelled;
use crate::backoff::Backoff;
use crate::{Claim, ClaimRequest, Effect, Error, ErrorKind, Result};

/// A claim that always ends, whatever happens to its holder: settled, or dropped.
///
/// The remaining step then goes to the runtime that the run was started on; where that has ended,
/// the lease runs out.
#[derive(Debug)]
pub(super) struct Held {
    lease: Arc<Lease>,
    heartbeat: Option<Heartbeat>,
    /// The ending when it is dropped.
    on_drop: Ending,
}

impl Held {
    /// Holds a claim whose work has not started: a drop releases it.
    pub(super) fn new(
        context: Context,
        request: &ClaimRequest,
        claim: Claim,
        sent: Instant,
    ) -> Self {
        Self {
            lease: Arc::new(Lease::new(context, request, claim, sent)),
            heartbeat: None,
            on_drop: Ending::Release,
        }
    }

    /// Marks it as claimed before, elsewhere.
    pub(super) fn set_handed_over(&self) {
        self.lease.set_handed_over();
    }

    /// Returns whether another attempt has held the key before.
    pub(super) fn is_takeover(&self) -> bool {
        self.lease.with_claim(Claim::is_takeover)
    }

    /// Returns whether the lease was over before the work started.
    pub(super) fn is_over(&self) -> bool {
        self.lease.is_over()
    }

    /// Returns the claim, with the end of its lease as last renewed.
    pub(super) fn claim(&self) -> Claim {
        self.lease.claim()
    }

    /// Returns what its work needs.
    pub(super) fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lease)
    }

    /// Starts the heartbeat; from now on a drop does what the policy says about cancelled work.
    pub(super) fn start(&mut self) {
        self.heartbeat = Some(Heartbeat::start(&self.lease));
        self.on_drop = Ending::interrupted(self.lease.context.policy.on_cancel(), cancelled);
    }

    /// Sets the ending for a drop from now on.
    pub(super) fn set_on_drop(&mut self, ending: Ending) {
        self.on_drop = ending;
    }

    /// Ends the claim so, even if the caller is dropped meanwhile.
    pub(super) async fn settle(mut self, ending: Ending) -> Result<()> {
        self.lease.end();
        self.on_drop = ending;
        match self.last_step() {
            Some(step) => self.lease.context.to_its_end(step.run()).await,
            None => Ok(()),
        }
    }

    /// Returns the remaining step, once.
    fn last_step(&mut self) -> Option<LastStep> {
        let context = &self.lease.context;
        let heartbeat = self.heartbeat.take();
        if heartbeat.is_some() {
            context.report_expiry(&self.lease);
        }
        // The work has sealed its claim in a transaction: only its other keys are left.
        if let Some(response) = self.lease.sealed() {
            self.on_drop = Ending::Sealed(response.clone());
        }
        let followers = self.lease.take_followers(&self.on_drop);
        let limit = match self.on_drop {
            Ending::LetExpire => {
                if heartbeat.is_some() {
                    context.report_ended(&self.lease, &self.on_drop, &Ok(()));
                }
                return None;
            }
            Ending::Release => context.policy.retry_timeout(),
            Ending::Complete(_) | Ending::Sealed(_) | Ending::Fail(_) | Ending::NotStored => {
                context.policy.seal_limit()
            }
        };
        let ending = std::mem::replace(&mut self.on_drop, Ending::LetExpire).with_failure();
        Some(LastStep {
            lease: Arc::clone(&self.lease),
            claim: self.lease.claim(),
            // A claim that cannot be released must expire, so no heartbeat; a claim that is sealed
            // late must not be taken over before.
            _heartbeat: heartbeat
                .filter(|_| !matches!(ending, Ending::Release | Ending::Sealed(_))),
            ending,
            limit,
            followers,
        })
    }
}

#[async_trait]
impl Follower for Held {
    fn set_on_drop(&mut self, ending: Ending) {
        self.on_drop = ending;
    }

    async fn settle(self: Box<Self>) -> Result<()> {
        let ending = self.on_drop.clone();
        Self::settle(*self, ending).await
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Settled already, or left before its work began.
        if matches!(self.on_drop, Ending::LetExpire) && self.heartbeat.is_none() {
            return;
        }
        self.lease.end();
        if let Some(step) = self.last_step() {
            let context = &self.lease.context;
            context.runtime.spawn(context.observers.around(step.run()));
        }
    }
}

/// The last step of a claim.
struct LastStep {
    lease: Arc<Lease>,
    claim: Claim,
    ending: Ending,
    limit: Duration,
    /// They end before this one does: a caller that finds the result here finds it there.
    followers: Vec<Box<dyn Follower>>,
    _heartbeat: Option<Heartbeat>,
}

impl LastStep {
    /// Takes the step and notifies the waiting runs of this process, whatever the result.
    async fn run(mut self) -> Result<()> {
        let mut result = Ok(());
        for follower in std::mem::take(&mut self.followers) {
            result = result.and(follower.settle().await);
        }
        self.take().await.and(result)
    }

    async fn take(&self) -> Result<()> {
        let result = self.repeat().await;
        let context = &self.lease.context;
        context.shared.waiting.ended(self.lease.key());
        context.report_ended(&self.lease, &self.ending, &result);
        result
    }

    /// Repeats the step until the store has taken it, possibly twice, or the time is up.
    async fn repeat(&self) -> Result<()> {
        let begun = Instant::now();
        let (mut sent, mut backoff) = (begun, None);
        let mut doubt = Doubt::default();
        loop {
            let error = match self.try_once(sent).await {
                Ok(()) => return Ok(()),
                Err(error) => doubt.about_all(error),
            };
            let backoff = backoff.get_or_insert_with(|| Backoff::since(begun, self.limit));
            // Boxed, because it is rare.
            if !is_worth_repeating(&error) || !Box::pin(backoff.pause()).await {
                return Err(error);
            }
            sent = Instant::now();
            let observers = &self.lease.context.observers;
            observers.retried(self.lease.key(), self.ending.call(), &error);
        }
    }

    async fn try_once(&self, sent: Instant) -> Result<()> {
        let store = self.lease.context.store();
        let policy = &self.lease.context.policy;
        let claim = &self.claim;
        let call = match &self.ending {
            Ending::Complete(response) => store.complete(claim, response, policy.retention()),
            Ending::Fail(failure) => store.fail(claim, failure, policy.failure_retention()),
            Ending::Release => store.release(claim),
            Ending::Sealed(_) | Ending::NotStored | Ending::LetExpire => return Ok(()),
        };
        in_time_since(sent, policy.try_limit(), self.ending.call(), call).await
    }
}

/// Returns whether a last step is worth repeating; it may be whenever it may have taken effect
/// already: the same step twice succeeds twice.
pub(super) fn is_worth_repeating(error: &Error) -> bool {
    let is_settled = matches!(
        error.kind(),
        ErrorKind::ClaimLost | ErrorKind::AlreadySealed
    );
    !is_settled && (error.is_retryable() || error.effect() != Effect::None)
}
