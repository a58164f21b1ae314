//! Claims that one process makes and another process works on.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::codec::Json;
use super::context::{Context, Doubt, in_time};
use super::ending::Ending;
use super::held::{Held, is_worth_repeating};
use super::run::{decided, perform, replayed};
use super::wait::Claimed;
use super::{Idempotency, Outcome, RunError, Work};
use crate::backend::check;
use crate::backoff::Backoff;
use crate::{
    Claim, ClaimRequest, Completed, ErrorKind, Fingerprint, Key, Metadata, Record, Result,
};

/// What became of a claim that was to be handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handoff {
    /// It is handed over in this call.
    New(Claim),
    /// The work is done already.
    Done(Completed),
}

impl Idempotency {
    /// Claims the key for work that another process does later, and delivers the claim there, for
    /// example in a queue's message. The receiver calls [`resume`](Self::resume).
    ///
    /// The engine renews the claim while `deliver` runs. The claim is then honoured for `wait`
    /// more, within which the work must begin. After that it can be taken over: the message then
    /// finds its claim lost. A process that is killed before it has delivered blocks the key for
    /// the policy's lease only. The metadata is what other callers see meanwhile in
    /// [`RunError::InFlight`], for example the job's id; it replaces the policy's.
    ///
    /// # Errors
    ///
    /// [`RunError::Work`] with the error of `deliver`, after which the key is released.
    /// [`RunError::InFlight`] while the work waits or runs, others as for [`run`](Self::run).
    /// [`RunError::Store`] with [`InvalidInput`](ErrorKind::InvalidInput) when `wait` is zero or
    /// above [`MAX_LEASE`](crate::limits::MAX_LEASE); then nothing is claimed.
    ///
    /// # Cancellation
    ///
    /// The claim is released, whether it is delivered or not.
    pub async fn hand_off<E, F, Fut>(
        &self,
        key: &Key,
        fingerprint: Fingerprint,
        metadata: Metadata,
        wait: Duration,
        deliver: F,
    ) -> Result<Handoff, RunError<E, ()>>
    where
        F: FnOnce(Claim) -> Fut + Send,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        check::wait(wait).map_err(RunError::Store)?;
        let policy = self
            .policy_for(key)
            .as_ref()
            .clone()
            .with_metadata(metadata);
        let context = self
            .context(key, Arc::new(policy))
            .map_err(RunError::Store)?;
        let decided = decided(&context, key, fingerprint);
        let claimed = context.observers.around(decided).await;
        match claimed.map_err(RunError::Store)? {
            Claimed::Held(held) => {
                let delivered = delivered(&context, held, wait, deliver);
                context.observers.around(delivered).await
            }
            Claimed::Completed(completed) => Ok(Handoff::Done(completed)),
            Claimed::Failed(failed) => Err(RunError::Failed(failed)),
            Claimed::InFlight(in_flight) => Err(RunError::InFlight(in_flight)),
            Claimed::Conflict(conflict) => Err(RunError::Conflict(conflict)),
        }
    }

    /// Runs work under a claim that [`hand_off`](Self::hand_off) made elsewhere.
    ///
    /// The claim says that no other attempt *claims* the key, not that no other process has this
    /// claim. Where a message may be delivered twice, the consumer must prevent two runs at once.
    ///
    /// # Errors
    ///
    /// [`RunError::Store`] with [`ClaimLost`](ErrorKind::ClaimLost) when the claim came too late:
    /// another attempt has acquired the key. A result sealed under this very claim is replayed.
    /// Others as for [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// As for [`run`](Self::run).
    pub async fn resume<T, E, F, Fut>(
        &self,
        claim: &Claim,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Outcome<T>, RunError<E, T>>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let key = claim.key();
        let context = self
            .context(key, self.policy_for(key))
            .map_err(RunError::Store)?;
        match renewed(&context, claim, context.policy.lease()).await {
            Ok((claim, sent)) => {
                let request = ClaimRequest::new(key.clone(), fingerprint);
                let held = Held::new(context.clone(), &request, claim, sent);
                held.set_handed_over();
                let work = perform::<Json, _, _, _, _>(&context, held, work);
                context.observers.around(work).await
            }
            Err(error) if error.kind() == ErrorKind::ClaimLost => {
                match context.store().get(key).await.map_err(RunError::Store)? {
                    Some(record) if record.info().token != claim.token() => {
                        Err(RunError::Store(error))
                    }
                    Some(Record::Completed(completed)) => {
                        replayed::<Json, _>(completed).map_err(RunError::Codec)
                    }
                    Some(Record::Failed(failed)) => Err(RunError::Failed(failed)),
                    Some(Record::InFlight(_)) | None => Err(RunError::Store(error)),
                }
            }
            Err(error) => Err(RunError::Store(error)),
        }
    }
}

async fn delivered<E, F, Fut>(
    context: &Context,
    mut held: Held,
    wait: Duration,
    deliver: F,
) -> Result<Handoff, RunError<E, ()>>
where
    F: FnOnce(Claim) -> Fut + Send,
    Fut: Future<Output = Result<(), E>> + Send,
{
    held.start();
    let claim = held.claim();
    held.set_on_drop(Ending::Release);
    if let Err(error) = deliver(claim.clone()).await {
        let _ = held.settle(Ending::Release).await;
        return Err(RunError::Work(error));
    }
    // The claim is delivered: its receiver may have begun, or have finished. If this fails, the
    // wait is as long as the lease.
    let _ = renewed(context, &claim, wait).await;
    let _ = held.settle(Ending::LetExpire).await;
    Ok(Handoff::New(claim))
}

/// Returns the claim with a new lease, and when the renewal was sent.
async fn renewed(context: &Context, claim: &Claim, lease: Duration) -> Result<(Claim, Instant)> {
    let mut backoff = Backoff::new(context.policy.retry_timeout());
    let mut doubt = Doubt::default();
    loop {
        let sent = Instant::now();
        let call = context.store().renew(claim, lease);
        let error = match in_time(context.policy.try_limit(), "renew", call).await {
            Ok(claim) => return Ok((claim, sent)),
            Err(error) => doubt.about_all(error),
        };
        if !is_worth_repeating(&error) || !backoff.pause().await {
            return Err(error);
        }
        context.observers.retried(claim.key(), "renew", &error);
    }
}
