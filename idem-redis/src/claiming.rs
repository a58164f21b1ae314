//! [`Claiming`]: in which order a claim is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idem_core::backend::{Batcher, DuplicateEstimator, check};
use idem_core::{ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Result};
use redis::Value;
use tokio::time::Instant;

use crate::error::Access;
use crate::fresh::{FreshAnswer, FreshClaim, claim_fresh};
use crate::link::Link;
use crate::operations::{Operations, is_acquired};
use crate::reads::{MOST, Read, Reads};
use crate::record::Stored;
use crate::store::RedisStore;

/// What claims have beside the script that decides every one of them.
///
/// That script is the whole of a claim, and always right. Two ways are shorter where they lead to
/// the end: a look at the record where the operation's claims are mostly of keys that are taken,
/// because a result is told by reading it; and, among many callers, a script that claims what is
/// free for all of them. Neither changes what it does not decide, so who comes to no end there goes
/// on as if it had just come.
#[derive(Debug)]
pub(crate) struct Claiming {
    estimator: DuplicateEstimator,
    reads: Reads,
    fresh: Arc<Batcher<FreshClaim, FreshAnswer>>,
    /// Whether each claim has to have a script of its own.
    is_split: Arc<AtomicBool>,
}

impl Claiming {
    pub(crate) fn new(link: &Arc<Link>, operations: &Arc<Operations>) -> Self {
        // Whose write was not replicated is told so, and nobody else: then each has a script of its
        // own.
        let config = &operations.config;
        let alone =
            !config.batching() || !link.connector.is_one_node() || config.replicas().is_some();
        let is_split = Arc::new(AtomicBool::new(alone));
        let (at, how, split) = (
            Arc::clone(link),
            Arc::clone(operations),
            Arc::clone(&is_split),
        );
        Self {
            estimator: DuplicateEstimator::new(),
            reads: Reads::new(Arc::clone(link), operations.config.batching()),
            // Errands share one connection, which sends them one after the other without waiting.
            fresh: Batcher::new(MOST, usize::MAX, move |claims| {
                let (at, how, split) = (Arc::clone(&at), Arc::clone(&how), Arc::clone(&split));
                claim_fresh(at, how, split, claims)
            }),
            is_split,
        }
    }
}

impl RedisStore {
    pub(crate) async fn claim_once(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        check::claim(request, &self.operations.config.limits())?;
        let (estimator, key) = (&self.claiming.estimator, request.key());
        let deadline = self.link.deadline();
        let is_looked_for = estimator.expects_duplicate(key);
        if is_looked_for && let Some(outcome) = self.look(request).await? {
            estimator.record(key, true);
            return Ok(outcome);
        }
        let outcome = if is_looked_for {
            self.by(deadline, self.claim_unseen(request, deadline))
                .await?
        } else {
            self.claim_unseen(request, deadline).await?
        };
        let was_taken = !matches!(outcome, ClaimOutcome::Acquired(_));
        estimator.record(key, was_taken);
        Ok(outcome)
    }

    /// With the others who claim now, if there are enough; otherwise alone.
    async fn claim_unseen(
        &self,
        request: &ClaimRequest,
        deadline: Instant,
    ) -> Result<ClaimOutcome> {
        let claiming = &self.claiming;
        let underway = claiming.fresh.enter();
        if !underway.is_in_company() || claiming.is_split.load(Ordering::Relaxed) {
            return self.claim_alone(request, deadline).await;
        }
        let claim = FreshClaim::new(request, &self.operations)?;
        let lease = claim.lease();
        match claiming.fresh.ask(claim).await {
            Some(answer) => {
                if let Some(now) = answer? {
                    return Ok(FreshClaim::won(request, lease, now));
                }
                self.by(deadline, self.claim_taken(request, deadline)).await
            }
            // It may have been claimed for this attempt, which is told that then.
            None => self.by(deadline, self.claim_alone(request, deadline)).await,
        }
    }

    /// Claims those of them that are free, many by one script; no answer for the others, for which
    /// it is found one by one.
    pub(crate) async fn claim_many_fresh(
        &self,
        requests: &[ClaimRequest],
    ) -> Vec<Option<Result<ClaimOutcome>>> {
        let claiming = &self.claiming;
        let mut answers: Vec<_> = requests.iter().map(|_| None).collect();
        if claiming.is_split.load(Ordering::Relaxed) {
            return answers;
        }
        let (mut places, mut claims) = (Vec::new(), Vec::new());
        for (place, request) in requests.iter().enumerate() {
            // What is wrong with a claim is told where each is sent by itself.
            if let Ok(claim) = FreshClaim::new(request, &self.operations) {
                places.push((place, claim.lease()));
                claims.push(claim);
            }
        }
        let (at, how) = (Arc::clone(&self.link), Arc::clone(&self.operations));
        let claimed = claim_fresh(at, how, Arc::clone(&claiming.is_split), claims).await;
        for ((place, lease), answer) in places.into_iter().zip(claimed) {
            let won = |now| FreshClaim::won(&requests[place], lease, now);
            answers[place] = answer.map(|now| now.map(won)).transpose();
        }
        answers
    }

    /// Of a key that was taken a moment ago.
    async fn claim_taken(&self, request: &ClaimRequest, deadline: Instant) -> Result<ClaimOutcome> {
        match self.look(request).await? {
            Some(outcome) => Ok(outcome),
            None => self.claim_alone(request, deadline).await,
        }
    }

    /// What the record says, if that is the answer.
    async fn look(&self, request: &ClaimRequest) -> Result<Option<ClaimOutcome>> {
        let keys = || vec![self.operations.record_key(request.key())];
        let read = self.claiming.reads.read(keys).await?;
        Ok(read.and_then(|read| answered(read, request)))
    }

    /// By the script that decides whatever it meets.
    async fn claim_alone(&self, request: &ClaimRequest, deadline: Instant) -> Result<ClaimOutcome> {
        let call = self.operations.claim(request)?;
        let link = &self.link;
        let answer = link
            .run_until(deadline, &call, Access::Write, is_acquired)
            .await?;
        Operations::claimed(request, answer)
    }

    /// What comes after a first step has the time that is left.
    async fn by(
        &self,
        deadline: Instant,
        claiming: impl Future<Output = Result<ClaimOutcome>> + Send,
    ) -> Result<ClaimOutcome> {
        let claimed = tokio::time::timeout_at(deadline, claiming).await;
        claimed.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Unavailable,
                Effect::Unknown,
                format!(
                    "no answer within {} ms; the server is overloaded or cannot be reached",
                    self.link.timeout().as_millis()
                ),
            ))
        })
    }
}

fn answered((now, values): Read, request: &ClaimRequest) -> Option<ClaimOutcome> {
    match values.into_iter().next() {
        Some(Value::BulkString(record)) => Stored::new(record, now).answers(request),
        _ => None,
    }
}
