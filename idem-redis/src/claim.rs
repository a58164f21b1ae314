//! A claim: the shortcuts, then the script that decides every case.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use idem_core::backend::check;
use idem_core::{ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Result};
use redis::Value;
use tokio::time::Instant;

use crate::error::Access;
use crate::fresh::{FreshClaim, claim_fresh};
use crate::operations::{Operations, is_acquired};
use crate::reads::Read;
use crate::record::Stored;
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn claim_once(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        check::claim(request, &self.operations.config.limits())?;
        let (estimator, key) = (&self.claiming.estimator, request.key());
        let deadline = self.link.deadline();
        let is_looked_for = estimator.expects_duplicate(key);
        if is_looked_for && let Some(outcome) = self.lookup(request).await? {
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

    /// Claims in a batch with concurrent callers, if there are enough; otherwise alone.
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
            // It may have been claimed for this attempt, which then gets its own claim back.
            None => self.by(deadline, self.claim_alone(request, deadline)).await,
        }
    }

    /// Claims the free keys among them, many by one script; returns no answer for the others, which
    /// are claimed one by one.
    pub(crate) async fn claim_many_fresh(
        &self,
        requests: &[ClaimRequest],
    ) -> Vec<Option<Result<ClaimOutcome>>> {
        let claiming = &self.claiming;
        let mut answers: Vec<_> = requests.iter().map(|_| None).collect();
        if claiming.is_split.load(Ordering::Relaxed) {
            return answers;
        }
        let (mut leases, mut claims) = (Vec::new(), Vec::new());
        for (index, request) in requests.iter().enumerate() {
            // An invalid claim gets its error where each is sent by itself.
            if let Ok(claim) = FreshClaim::new(request, &self.operations) {
                leases.push((index, claim.lease()));
                claims.push(claim);
            }
        }
        let (at, how) = (Arc::clone(&self.link), Arc::clone(&self.operations));
        let claimed = claim_fresh(at, how, Arc::clone(&claiming.is_split), claims).await;
        for ((index, lease), answer) in leases.into_iter().zip(claimed) {
            let won = |now| FreshClaim::won(&requests[index], lease, now);
            answers[index] = answer.map(|now| now.map(won)).transpose();
        }
        answers
    }

    /// Claims a key that was taken a moment ago.
    async fn claim_taken(&self, request: &ClaimRequest, deadline: Instant) -> Result<ClaimOutcome> {
        match self.lookup(request).await? {
            Some(outcome) => Ok(outcome),
            None => self.claim_alone(request, deadline).await,
        }
    }

    /// Returns the record's answer, if it decides the claim.
    async fn lookup(&self, request: &ClaimRequest) -> Result<Option<ClaimOutcome>> {
        let keys = || vec![self.operations.record_key(request.key())];
        let read = self.claiming.reads.read(keys).await?;
        Ok(read.and_then(|read| answered(read, request)))
    }

    /// Claims by the script that decides every case.
    async fn claim_alone(&self, request: &ClaimRequest, deadline: Instant) -> Result<ClaimOutcome> {
        let call = self.operations.claim(request)?;
        let link = &self.link;
        let answer = link
            .run_until(deadline, &call, Access::Write, is_acquired)
            .await?;
        Operations::claimed(request, answer)
    }

    /// A second step gets the time that the first one left.
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
