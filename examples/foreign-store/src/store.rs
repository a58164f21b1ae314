//! [`FileStore`]: the store.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::{check, whole_millis_as_micros};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, FailedPolicy, Failure,
    IdempotencyStore, Key, Limits, Record, Response, Result, StalePolicy,
};

use crate::file::{Table, with_table};
use crate::row::{Row, State};

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
    /// whether it changed anything.
    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        change: impl FnOnce(&mut Table, i64) -> (Result<T>, bool) + Send + 'static,
    ) -> Result<T> {
        let path = self.path.clone();
        let work = move || {
            with_table(&path, |table| {
                let now = table.now();
                change(table, now)
            })
        };
        let done = match tokio::task::spawn_blocking(work).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(unavailable(error)),
            Err(error) => Err(unavailable(error)),
        };
        done.map_err(|error| error.at(BACKEND, operation))
    }

    async fn seal(
        &self,
        operation: &'static str,
        claim: &Claim,
        state: impl FnOnce(i64) -> State + Send + 'static,
        retention: i64,
    ) -> Result<()> {
        let claim = claim.clone();
        self.run(operation, move |table, now| {
            let sealed = owned(table, &claim, now).and_then(|row| {
                let state = state(now);
                match (&row.state, &state) {
                    (State::InFlight, _) => {}
                    (State::Completed(old, _), State::Completed(new, _)) if old == new => {
                        return Ok(false);
                    }
                    (State::Failed(old, _), State::Failed(new, _)) if old == new => {
                        return Ok(false);
                    }
                    _ => return Err(Error::already_sealed()),
                }
                row.state = state;
                row.expires_at = now.saturating_add(retention);
                Ok(true)
            });
            let changed = matches!(sealed, Ok(true));
            (sealed.map(drop), changed)
        })
        .await
    }
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

fn owned<'a>(table: &'a mut Table, claim: &Claim, now: i64) -> Result<&'a mut Row> {
    let row = table.rows.get_mut(&name(claim.key()));
    row.filter(|row| row.is_live(now) && row.is_owned_by(claim))
        .ok_or_else(Error::claim_lost)
}

/// Returns the outcome of a claim, and whether it changed the table.
fn claim(table: &mut Table, request: &ClaimRequest, now: i64) -> (ClaimOutcome, bool) {
    let row = table.rows.get_mut(&name(request.key()));
    let Some(row) = row.filter(|row| row.is_live(now)) else {
        return (acquire(table, request, now, None), true);
    };
    let mut changed = false;
    if row.request.fingerprint() == request.fingerprint() {
        let own = row.state == State::InFlight && row.owner == request.attempt();
        let retried =
            matches!(row.state, State::Failed(..)) && request.on_failed() == FailedPolicy::Retry;
        let fails = row.may_not_be_taken_over() || request.on_stale() == StalePolicy::Fail;
        if own || retried || (row.is_stale(now) && !fails) {
            let before = row.clone();
            return (acquire(table, request, now, Some((before, own))), true);
        }
        if row.is_stale(now) {
            row.abandon(now);
            changed = true;
        }
    }
    let record = row.record(now).expect("the row is live");
    (
        ClaimOutcome::from_record(record, request.fingerprint()),
        changed,
    )
}

/// Makes the request the holder; `before` is the earlier row, and whether it was the request's own.
fn acquire(
    table: &mut Table,
    request: &ClaimRequest,
    now: i64,
    before: Option<(Row, bool)>,
) -> ClaimOutcome {
    let (token, attempts, created_at) = match before {
        Some((row, true)) => (row.token, row.attempts, row.created_at),
        Some((row, false)) => (table.next_token(now), row.attempts + 1, row.created_at),
        None => (table.next_token(now), 1, now),
    };
    let lease_ends_at = now.saturating_add(whole_millis_as_micros(request.lease()));
    let row = Row {
        request: request.clone(),
        owner: request.attempt(),
        token,
        attempts,
        created_at,
        lease_ends_at,
        expires_at: lease_ends_at.saturating_add(whole_millis_as_micros(request.retention())),
        state: State::InFlight,
    };
    let claim = row.claim(now);
    table.rows.insert(name(request.key()), row);
    ClaimOutcome::Acquired(claim)
}

fn release(table: &mut Table, claim: &Claim, now: i64) -> (Result<()>, bool) {
    let row = table.rows.get_mut(&name(claim.key()));
    match row.filter(|row| row.is_owned_by(claim)) {
        Some(row) if row.state == State::Released => (Ok(()), false),
        Some(row) if row.state == State::InFlight && row.is_live(now) => {
            row.state = State::Released;
            (Ok(()), true)
        }
        _ => (Err(Error::claim_lost()), false),
    }
}

fn renew(table: &mut Table, claim: &Claim, lease: i64, now: i64) -> Result<Claim> {
    let row = owned(table, claim, now)?;
    if row.state != State::InFlight {
        return Err(Error::claim_lost());
    }
    let longer = (now.saturating_add(lease) - row.lease_ends_at).max(0);
    row.lease_ends_at += longer;
    row.expires_at += longer;
    Ok(row.claim(now))
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
        check::claim(request, &self.limits()).map_err(|error| error.at(BACKEND, "claim"))?;
        let request = request.clone();
        self.run("claim", move |table, now| {
            let (outcome, changed) = claim(table, &request, now);
            (Ok(outcome), changed)
        })
        .await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let retention = check::retention(retention)
            .and_then(|kept| check::response(response, &self.limits()).map(|_| kept))
            .map_err(|error| error.at(BACKEND, "complete"))?;
        let response = response.clone();
        let state = |now| State::Completed(response, now);
        self.seal("complete", claim, state, retention).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        let retention = check::retention(retention)
            .and_then(|kept| check::failure(failure, &self.limits()).map(|_| kept))
            .map_err(|error| error.at(BACKEND, "fail"))?;
        let failure = failure.clone();
        let state = |now| State::Failed(failure, now);
        self.seal("fail", claim, state, retention).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        let claim = claim.clone();
        self.run("release", move |table, now| release(table, &claim, now))
            .await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        let lease = check::lease(lease).map_err(|error| error.at(BACKEND, "renew"))?;
        let claim = claim.clone();
        self.run("renew", move |table, now| {
            let renewed = renew(table, &claim, lease, now);
            let changed = renewed.is_ok();
            (renewed, changed)
        })
        .await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let name = name(key);
        let lookup = move |table: &mut Table, now| {
            (
                Ok(table.rows.get(&name).and_then(|row| row.record(now))),
                false,
            )
        };
        self.run("get", lookup).await
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        let limit = check::batch(limit).map_err(|error| error.at(BACKEND, "delete_expired"))?;
        self.run("delete_expired", move |table, now| {
            let gone = table.rows.iter().filter(|(_, row)| !row.is_live(now));
            let gone: Vec<_> = gone
                .map(|(name, _)| name.clone())
                .take(limit as usize)
                .collect();
            gone.iter().for_each(|name| drop(table.rows.remove(name)));
            (Ok(gone.len() as u64), !gone.is_empty())
        })
        .await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        let limit = check::batch(limit).map_err(|error| error.at(BACKEND, "fail_abandoned"))?;
        self.run("fail_abandoned", move |table, now| {
            let rows = table.rows.values_mut();
            let fails = |row: &&mut Row| {
                row.is_live(now) && row.is_stale(now) && row.may_not_be_taken_over()
            };
            let failed = rows.filter(fails).take(limit as usize);
            let count = failed.map(|row| row.abandon(now)).count() as u64;
            (Ok(count), count > 0)
        })
        .await
    }
}
