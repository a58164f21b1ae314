//! [`FileStore`]: the store.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::decision::{
    ClaimDecision, StepDecision, decide, decide_release, decide_renewal, decide_seal,
};
use idem_core::backend::{check, whole_millis_as_micros};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Completed, Effect, Error, ErrorKind, Failed, Failure,
    IdempotencyStore, InFlight, Key, Limits, Record, RecordInfo, Response, Result, StalePolicy,
    Timestamp,
};

use crate::file::{Table, with_table};
use crate::row::Row;

const BACKEND: &str = "foreign";

/// A store in one file. Any number of processes of one machine may share it.
#[derive(Debug, Clone)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// Creates the store on this file, which the first write creates.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Runs `change` on a thread where waiting for the lock blocks no other task. `change` returns
    /// also whether it changed anything.
    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        change: impl FnOnce(&mut Table, Timestamp) -> Result<(T, bool)> + Send + 'static,
    ) -> Result<T> {
        let path = self.path.clone();
        let work = move || with_table(&path, change);
        let done = match tokio::task::spawn_blocking(work).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(unavailable(error)),
            Err(error) => Err(unavailable(error)),
        };
        done.map_err(at(operation))
    }

    /// Seals the claim with the record that `sealed` makes.
    async fn seal(
        &self,
        operation: &'static str,
        claim: &Claim,
        retention: Duration,
        sealed: impl FnOnce(RecordInfo, Timestamp) -> Record + Send + 'static,
    ) -> Result<()> {
        let retention = check::retention(retention).map_err(at(operation))?;
        let claim = claim.clone();
        self.run(operation, move |table, now| {
            let row = row(table, &claim)?;
            let mut info = row.record.info().clone();
            info.expires_at = later(now, retention);
            let sealed = sealed(info, now);
            let is_same = || match (&row.record, &sealed) {
                (Record::Completed(old), Record::Completed(new)) => old.response == new.response,
                (Record::Failed(old), Record::Failed(new)) => old.failure == new.failure,
                _ => false,
            };
            let applies = applies(decide_seal(Some(&row.facts()), &claim, is_same, now))?;
            if applies {
                row.record = sealed;
            }
            Ok(((), applies))
        })
        .await
    }
}

fn at(operation: &'static str) -> impl Fn(Error) -> Error {
    move |error| error.at(BACKEND, operation)
}

/// A file error may come after the file was replaced, so the effect is unknown.
fn unavailable(source: impl Into<idem_core::BoxError>) -> Error {
    let message = "the file cannot be read or written";
    Error::new(ErrorKind::Unavailable, Effect::Unknown, message).with_source(source)
}

/// Joins the parts of the key. They never contain control characters, so no part can look like the
/// end of another.
fn name(key: &Key) -> String {
    [key.scope(), key.operation(), key.id()].join("\0")
}

fn row<'a>(table: &'a mut Table, claim: &Claim) -> Result<&'a mut Row> {
    let row = table.rows.get_mut(&name(claim.key()));
    row.ok_or_else(Error::claim_lost)
}

fn later(now: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(now.as_micros().saturating_add(micros))
}

/// Returns whether the step has to be written.
fn applies(decision: StepDecision) -> Result<bool> {
    match decision {
        StepDecision::Apply => Ok(true),
        StepDecision::Done => Ok(false),
        StepDecision::Lost => Err(Error::claim_lost()),
        StepDecision::AlreadySealed => Err(Error::already_sealed()),
    }
}

/// Returns the outcome of a claim, and whether it changed the table.
fn claim(
    table: &mut Table,
    request: &ClaimRequest,
    now: Timestamp,
) -> Result<(ClaimOutcome, bool)> {
    let name = name(request.key());
    let found = table.rows.get_mut(&name);
    let facts = found.as_ref().map(|row| row.facts());
    let before = found.as_ref().map(|row| row.record.info().clone());
    let decision = decide(facts.as_ref(), request, now);
    let (token, attempts, created_at) = match (decision, found, before) {
        (ClaimDecision::Report | ClaimDecision::Abandon, Some(row), _) => {
            let is_abandoned = decision == ClaimDecision::Abandon;
            if is_abandoned {
                row.abandon(now);
            }
            let outcome = ClaimOutcome::from_record(row.seen(now), request.fingerprint());
            return Ok((outcome, is_abandoned));
        }
        (ClaimDecision::Own, _, Some(own)) => (own.token, own.attempts, own.created_at),
        (ClaimDecision::TakeOver | ClaimDecision::Retry, _, Some(before)) => {
            let token = table.next_token(now)?;
            (token, before.attempts + 1, before.created_at)
        }
        _ => (table.next_token(now)?, 1, now),
    };
    let lease_ends_at = later(now, whole_millis_as_micros(request.lease()));
    let expires_at = later(lease_ends_at, whole_millis_as_micros(request.retention()));
    let info = RecordInfo::new(*request.fingerprint(), token, attempts)
        .with_times(created_at, expires_at, now)
        .with_metadata(request.metadata().clone());
    let row = Row {
        attempt: request.attempt(),
        record: Record::InFlight(InFlight {
            info,
            lease_ends_at,
            on_stale: request.on_stale(),
        }),
        is_released: false,
    };
    let claim = row.claim(request.key(), now, lease_ends_at);
    table.rows.insert(name, row);
    Ok((ClaimOutcome::Acquired(claim), true))
}

fn renew(table: &mut Table, claim: &Claim, lease: i64, now: Timestamp) -> Result<(Claim, bool)> {
    let row = row(table, claim)?;
    applies(decide_renewal(Some(&row.facts()), claim, now))?;
    let Record::InFlight(held) = &mut row.record else {
        return Err(Error::claim_lost());
    };
    let longer = later(now, lease).saturating_since(held.lease_ends_at);
    held.lease_ends_at = held.lease_ends_at.saturating_add(longer);
    held.info.expires_at = held.info.expires_at.saturating_add(longer);
    let lease_ends_at = held.lease_ends_at;
    Ok((row.claim(claim.key(), now, lease_ends_at), true))
}

#[async_trait]
impl IdempotencyStore for FileStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn limits(&self) -> Limits {
        Limits::DEFAULT.with_max_result_bytes(128 << 10)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        check::claim(request, &self.limits()).map_err(at("claim"))?;
        let request = request.clone();
        self.run("claim", move |table, now| claim(table, &request, now))
            .await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        check::response(response, &self.limits()).map_err(at("complete"))?;
        let response = response.clone();
        let sealed = |info, sealed_at| {
            Record::Completed(Completed {
                info,
                response,
                sealed_at,
            })
        };
        self.seal("complete", claim, retention, sealed).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        check::failure(failure, &self.limits()).map_err(at("fail"))?;
        let failure = failure.clone();
        let sealed = |info, sealed_at| {
            Record::Failed(Failed {
                info,
                failure,
                sealed_at,
            })
        };
        self.seal("fail", claim, retention, sealed).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        let claim = claim.clone();
        self.run("release", move |table, now| {
            let row = row(table, &claim)?;
            let applies = applies(decide_release(Some(&row.facts()), &claim, now))?;
            row.is_released = true;
            Ok(((), applies))
        })
        .await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        let lease = check::lease(lease).map_err(at("renew"))?;
        let claim = claim.clone();
        self.run("renew", move |table, now| renew(table, &claim, lease, now))
            .await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let name = name(key);
        self.run("get", move |table, now| {
            let row = table.rows.get(&name).filter(|row| row.facts().is_live(now));
            Ok((row.map(|row| row.seen(now)), false))
        })
        .await
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        let limit = check::batch(limit).map_err(at("delete_expired"))?;
        self.run("delete_expired", move |table, now| {
            let is_gone = |_: &String, row: &mut Row| !row.facts().is_live(now);
            let gone = table.rows.extract_if(.., is_gone).take(limit as usize);
            let count = gone.count() as u64;
            Ok((count, count > 0))
        })
        .await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        let limit = check::batch(limit).map_err(at("fail_abandoned"))?;
        self.run("fail_abandoned", move |table, now| {
            let is_abandoned = |row: &&mut Row| {
                let facts = row.facts();
                facts.is_live(now) && facts.is_stale(now) && facts.on_stale == StalePolicy::Fail
            };
            let abandoned = table.rows.values_mut().filter(is_abandoned);
            let count = abandoned
                .take(limit as usize)
                .map(|row| row.abandon(now))
                .count() as u64;
            Ok((count, count > 0))
        })
        .await
    }
}
