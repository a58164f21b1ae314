//! [`Recorded`]: a store whose calls are noted.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::{
    Checkpoint, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    FailedPolicy, Failure, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result,
    StalePolicy, WatermarkStore,
};

use super::Recorder;
use super::hashed::{of_bytes as hash, of_checkpoint, of_failure, of_response};
use crate::spec::{Answer, Call, Op};

/// A store in front of another that notes every call and its answer.
///
/// A call whose future is dropped has no answer: its outcome is unknown.
#[derive(Debug)]
pub struct Recorded<S> {
    inner: S,
    recorder: Recorder,
}

impl<S: IdempotencyStore> Recorded<S> {
    /// Notes the calls of this store.
    #[must_use]
    pub fn new(inner: S, recorder: Recorder) -> Self {
        Self { inner, recorder }
    }

    fn invoke(&self, key: Option<&Key>, call: Call) -> Result<u64> {
        let key = key.map(name).unwrap_or_default();
        self.recorder.invoke(&key, call).map_err(unwritten)
    }

    fn note(&self, id: u64, now: Option<i64>, answer: Answer) -> Result<()> {
        self.recorder.answer(id, now, answer).map_err(unwritten)
    }

    fn holder(&self, claim: &Claim, op: Op) -> Result<u64> {
        let call = Call {
            op,
            attempt: hash(claim.attempt().as_bytes()),
            token: claim.token().as_i64(),
        };
        self.invoke(Some(claim.key()), call)
    }

    /// Notes the answer to an operation of a holder, and returns it.
    fn held<T>(&self, id: u64, result: Result<T>) -> Result<T> {
        let answer = match &result {
            Ok(_) => Answer::Done,
            Err(error) => of_error(error),
        };
        self.note(id, None, answer)?;
        result
    }
}

/// Returns the name of a key in a history: the beginning of its hash.
#[must_use]
pub fn name(key: &Key) -> String {
    let mut name = key.hashed();
    name.truncate(16);
    name
}

/// A history that cannot be written ends the run.
fn unwritten(source: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Other,
        Effect::Unknown,
        "the history cannot be written",
    )
    .with_source(source)
}

fn of_error(error: &Error) -> Answer {
    match (error.kind(), error.effect()) {
        (ErrorKind::ClaimLost, _) => Answer::Lost,
        (ErrorKind::AlreadySealed, _) => Answer::AlreadySealed,
        (_, Effect::None) => Answer::NotDone,
        _ => Answer::Unknown,
    }
}

/// Returns the store's instant of the answer, and the answer.
fn of_record(record: &Record) -> (i64, Answer) {
    let info = record.info();
    let tok = info.token.as_i64();
    let answer = match record {
        Record::InFlight(record) => Answer::InFlight {
            tok,
            lease_end: record.lease_ends_at.as_micros(),
        },
        Record::Completed(record) => Answer::Completed {
            tok,
            seal: of_response(&record.response),
        },
        Record::Failed(record) => Answer::Failed {
            tok,
            seal: of_failure(&record.failure),
        },
    };
    (info.observed_at.as_micros(), answer)
}

fn of_outcome(outcome: &ClaimOutcome) -> (i64, Answer) {
    match outcome {
        ClaimOutcome::Acquired(claim) => {
            let lease_end = claim.lease_ends_at().as_micros();
            let answer = Answer::Acquired {
                tok: claim.token().as_i64(),
                n: claim.attempts(),
                lease_end,
            };
            (granted_at(claim), answer)
        }
        ClaimOutcome::InFlight(record) => of_record(&Record::InFlight(record.clone())),
        ClaimOutcome::Completed(record) => of_record(&Record::Completed(record.clone())),
        ClaimOutcome::Failed(record) => of_record(&Record::Failed(record.clone())),
        ClaimOutcome::Conflict(conflict) => {
            let answer = Answer::Conflict {
                tok: conflict.info.token.as_i64(),
                fp: hash(conflict.info.fingerprint.to_string().as_bytes()),
            };
            (conflict.info.observed_at.as_micros(), answer)
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Returns when the store granted the claim, by its own clock.
fn granted_at(claim: &Claim) -> i64 {
    claim
        .lease_ends_at()
        .as_micros()
        .saturating_sub(micros(claim.lease_granted()))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: IdempotencyStore> IdempotencyStore for Recorded<S> {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        self.inner
            .checkpoints()
            .map(|_| self as &dyn CheckpointStore)
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        self.inner.watermarks()
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        self.inner.admin()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let call = Call {
            op: Op::Claim {
                fp: hash(request.fingerprint().to_string().as_bytes()),
                lease: micros(request.lease()),
                ret: micros(request.retention()),
                takeover: request.on_stale() == StalePolicy::TakeOver,
                retry: request.on_failed() == FailedPolicy::Retry,
            },
            attempt: hash(request.attempt().as_bytes()),
            token: 0,
        };
        let id = self.invoke(Some(request.key()), call)?;
        let result = self.inner.claim(request).await;
        match &result {
            Ok(outcome) => {
                let (now, answer) = of_outcome(outcome);
                self.note(id, Some(now), answer)?;
            }
            Err(error) => self.note(id, None, of_error(error))?,
        }
        result
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let seal = of_response(response);
        let ret = micros(retention);
        let id = self.holder(claim, Op::Complete { seal, ret })?;
        self.held(id, self.inner.complete(claim, response, retention).await)
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        let seal = of_failure(failure);
        let ret = micros(retention);
        let id = self.holder(claim, Op::Fail { seal, ret })?;
        self.held(id, self.inner.fail(claim, failure, retention).await)
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        let id = self.holder(claim, Op::Release)?;
        self.held(id, self.inner.release(claim).await)
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        let lasts = micros(lease);
        let id = self.holder(claim, Op::Renew { lease: lasts })?;
        let result = self.inner.renew(claim, lease).await;
        match &result {
            Ok(renewed) => self.note(id, Some(granted_at(renewed)), Answer::Done)?,
            Err(error) => self.note(id, None, of_error(error))?,
        }
        result
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let call = Call {
            op: Op::Get,
            attempt: 0,
            token: 0,
        };
        let id = self.invoke(Some(key), call)?;
        let result = self.inner.get(key).await;
        match &result {
            Ok(Some(record)) => {
                let (now, answer) = of_record(record);
                self.note(id, Some(now), answer)?;
            }
            Ok(None) => self.note(id, None, Answer::Nothing)?,
            // A read that failed has no effect.
            Err(_) => self.note(id, None, Answer::NotDone)?,
        }
        result
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        // What it deletes is free already, so no answer shows it.
        self.inner.delete_expired(limit).await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        let call = Call {
            op: Op::Sweep,
            attempt: 0,
            token: 0,
        };
        let id = self.invoke(None, call)?;
        let result = self.inner.fail_abandoned(limit).await;
        // Which keys it failed is not said: each of them, or none.
        let answer = match &result {
            Ok(_) => Answer::Done,
            Err(error) => of_error(error),
        };
        self.note(id, None, answer)?;
        result
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: IdempotencyStore> CheckpointStore for Recorded<S> {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let Some(inner) = self.inner.checkpoints() else {
            return Err(without_checkpoints());
        };
        let cp = of_checkpoint(checkpoint);
        let id = self.holder(claim, Op::Save { cp })?;
        self.held(id, inner.checkpoint(claim, checkpoint).await)
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        let Some(inner) = self.inner.checkpoints() else {
            return Err(without_checkpoints());
        };
        let id = self.holder(claim, Op::Load)?;
        let result = inner.last_checkpoint(claim).await;
        let answer = match &result {
            Ok(found) => Answer::Checkpoint {
                cp: found.as_ref().map_or(0, of_checkpoint),
            },
            Err(error) if error.kind() == ErrorKind::ClaimLost => Answer::Lost,
            Err(_) => Answer::NotDone,
        };
        self.note(id, None, answer)?;
        result
    }
}

fn without_checkpoints() -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        Effect::None,
        "the store keeps no checkpoints",
    )
}
