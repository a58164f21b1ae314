//! A claim: the shortcuts, then the script that decides every case.

use idem_core::backend::check::{self, CheckedClaim};
use idem_core::{ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Result};
use redis::Value;
use tokio::time::Instant;

use crate::error::Access;
use crate::fresh::FreshClaim;
use crate::operations::{Operations, is_settled};
use crate::reads::Read;
use crate::record::Stored;
use crate::shortcuts::Shortcuts;
use crate::store::{RedisStore, after_write};

impl RedisStore {
    pub(crate) async fn claim_once(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let checked = check::claim(request, &self.operations.config.limits())?;
        let (estimator, key) = (&self.shortcuts.estimator, request.key());
        let deadline = self.link.deadline();
        let is_looked_for = estimator.expects_duplicate(key);
        if is_looked_for && let Some(outcome) = self.lookup(request).await? {
            estimator.record(key, true);
            return Ok(outcome);
        }
        let outcome = if is_looked_for {
            self.by(deadline, self.claim_unseen(request, &checked, deadline))
                .await?
        } else {
            self.claim_unseen(request, &checked, deadline).await?
        };
        let was_taken = !matches!(outcome, ClaimOutcome::Acquired(_));
        estimator.record(key, was_taken);
        Ok(outcome)
    }

    /// Claims in a batch with concurrent callers, if there are enough; otherwise alone.
    async fn claim_unseen(
        &self,
        request: &ClaimRequest,
        checked: &CheckedClaim,
        deadline: Instant,
    ) -> Result<ClaimOutcome> {
        let Shortcuts { many, fresh, .. } = &*self.shortcuts;
        let underway = self.shortcuts.enter();
        if !underway.is_in_company() || many.is_split() {
            return self.claim_alone(request, checked, deadline).await;
        }
        let claim = FreshClaim::new(request, checked, &self.operations);
        match fresh.ask(claim).await {
            Some(answer) => match answer? {
                Some(now) => Ok(FreshClaim::won(request, checked, now)),
                None => {
                    self.by(deadline, self.claim_taken(request, checked, deadline))
                        .await
                }
            },
            // It may have been claimed for this attempt, which then gets its own claim back.
            None => self
                .by(deadline, self.claim_alone(request, checked, deadline))
                .await
                .map_err(after_write),
        }
    }

    /// Claims the free keys among them, many by one script; returns no answer for the others, which
    /// are claimed one by one.
    pub(crate) async fn claim_many_fresh(
        &self,
        requests: &[ClaimRequest],
        checked: &[Result<CheckedClaim>],
    ) -> Vec<Option<Result<ClaimOutcome>>> {
        let mut answers: Vec<_> = requests.iter().map(|_| None).collect();
        let valid: Vec<_> = (0..)
            .zip(requests.iter().zip(checked))
            .filter_map(|(at, (request, checked))| Some((at, request, checked.as_ref().ok()?)))
            .collect();
        let claims = valid
            .iter()
            .map(|(_, request, checked)| FreshClaim::new(request, checked, &self.operations));
        let claimed = self.shortcuts.many.clone().write(claims.collect()).await;
        for ((at, request, checked), answer) in valid.into_iter().zip(claimed) {
            let won = |now| FreshClaim::won(request, checked, now);
            answers[at] = answer.map(|now| now.map(won)).transpose();
        }
        answers
    }

    /// Claims a key that was taken a moment ago.
    async fn claim_taken(
        &self,
        request: &ClaimRequest,
        checked: &CheckedClaim,
        deadline: Instant,
    ) -> Result<ClaimOutcome> {
        match self.lookup(request).await? {
            Some(outcome) => Ok(outcome),
            None => self.claim_alone(request, checked, deadline).await,
        }
    }

    /// Returns the record's answer, if it decides the claim. Where replicas must have what an answer
    /// rests on, only the script answers: `WAIT` needs a write.
    async fn lookup(&self, request: &ClaimRequest) -> Result<Option<ClaimOutcome>> {
        if self.operations.config.replicas().is_some() {
            return Ok(None);
        }
        let keys = || vec![self.operations.record_key(request.key())];
        let read = self.shortcuts.reads.read(keys).await?;
        Ok(read.and_then(|read| answered(read, request)))
    }

    /// Claims by the script that decides every case.
    async fn claim_alone(
        &self,
        request: &ClaimRequest,
        checked: &CheckedClaim,
        deadline: Instant,
    ) -> Result<ClaimOutcome> {
        let call = self.operations.claim(request, checked);
        let link = &self.link;
        let answer = link
            .run_until(deadline, &call, Access::Write, is_settled)
            .await?;
        Operations::claimed(request, answer)
    }

    /// A second step gets the time that the first one left.
    pub(crate) async fn by<T>(
        &self,
        deadline: Instant,
        step: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let done = tokio::time::timeout_at(deadline, step).await;
        done.unwrap_or_else(|_| {
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
