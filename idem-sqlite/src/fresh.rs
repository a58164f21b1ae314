//! Claims of keys that have no row, many by one statement.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use idem_core::check::CheckedClaim;
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, FencingToken, Gather, Result, StalePolicy, Timestamp, check,
};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::batch::Answers;
use crate::error::{Sent, decode};
use crate::operations::Operations;
use crate::pools::Pools;
use crate::session::{Query, Session, timed_out};
use crate::sql::PARAMETERS;
use crate::statements::INSERTED_AT_MOST;
use crate::store::SqliteStore;

/// Claims of many callers of keys that have no row. There is one writer, so they would wait for each other; those who wait
/// for it at the same time are inserted together.
#[derive(Debug, Clone)]
pub(crate) struct Fresh(Arc<Gather<ClaimRequest, Option<Result<ClaimOutcome>>>>);

impl Fresh {
    pub(crate) fn new(pools: &Pools, operations: &Arc<Operations>) -> Self {
        let (pools, operations) = (pools.clone(), Arc::clone(operations));
        Self(Gather::new(INSERTED_AT_MOST, 1, move |requests| {
            let (pools, operations) = (pools.clone(), Arc::clone(&operations));
            async move {
                let mut answers: Answers<_> = requests.iter().map(|_| None).collect();
                let all: Vec<_> = (0..requests.len()).collect();
                operations
                    .insert_at_once(&pools, &requests, &all, &mut answers)
                    .await;
                answers
            }
        }))
    }
}

impl SqliteStore {
    /// A claim, with the others who claim now where there are many and keys are mostly fresh.
    pub(crate) async fn claim_once(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let (operations, Fresh(fresh)) = (&self.operations, &self.fresh);
        let underway = fresh.enter();
        let are_gathered = underway.is_in_company() && self.pools.own.is_some();
        if !are_gathered || operations.traffic.expects_record(request.key()) {
            return operations.claim(&mut self.session(), request).await;
        }
        let config = &operations.config;
        check::claim(request, &config.limits())?;
        match tokio::time::timeout(config.timeout(), fresh.ask(request.clone())).await {
            Ok(Some(Some(told))) => told,
            // The key has a row, which may be of this attempt; or the lock was taken.
            Ok(_) => {
                operations
                    .claim_with(&mut self.session(), request, false)
                    .await
            }
            Err(_) => Err(timed_out(config, Sent::Write)),
        }
    }
}

/// A claim, and at which position its answer belongs.
struct Asked<'r> {
    position: usize,
    request: &'r ClaimRequest,
    checked: CheckedClaim,
}

impl Operations {
    /// Answers those of these claims whose keys have no row, by one statement, and in no transaction one commit, for each
    /// [`INSERTED_AT_MOST`] of them. On a connection of the store's own nothing is done while the write lock is taken.
    ///
    /// What was inserted is won: the statement writes no row that is there already, whatever its state, and leaves that
    /// to the statements that decide.
    pub(crate) async fn insert_many(
        &self,
        session: &mut Session<'_>,
        requests: &[ClaimRequest],
        positions: &[usize],
        answers: &mut Answers<ClaimOutcome>,
    ) -> Result<()> {
        for positions in positions.chunks(INSERTED_AT_MOST) {
            let mut asked = Vec::with_capacity(positions.len());
            // A row tells by its attempt whose it is; of two claims of one attempt the second is left.
            let mut by_attempt = HashMap::with_capacity(positions.len());
            for &position in positions {
                let request = &requests[position];
                if let Entry::Vacant(place) = by_attempt.entry(*request.attempt().as_bytes()) {
                    place.insert(asked.len());
                    let checked = check::claim(request, &self.config.limits())?;
                    asked.push(Asked {
                        position,
                        request,
                        checked,
                    });
                }
            }
            let Some(rows) = self.inserted_rows(session, &asked).await? else {
                return Ok(());
            };
            for row in rows {
                let (attempt, now) = inserted(&row)?;
                if let Some(asked) = by_attempt.get(attempt).map(|&place| &asked[place]) {
                    self.traffic.learn(asked.request.key(), false);
                    answers[asked.position] = Some(Ok(asked.won(now)));
                }
            }
        }
        Ok(())
    }

    /// The same on a connection of the store's own; when it fails, its error is the answer of all.
    pub(crate) async fn insert_at_once(
        &self,
        pools: &Pools,
        requests: &[ClaimRequest],
        positions: &[usize],
        answers: &mut Answers<ClaimOutcome>,
    ) {
        let mut session = Session::Pool(pools, &self.config);
        let inserted = self.insert_many(&mut session, requests, positions, answers);
        if let Err(error) = inserted.await {
            let each = error.for_each_item();
            for &position in positions {
                answers[position].get_or_insert_with(|| Err(each()));
            }
        }
    }

    async fn inserted_rows(
        &self,
        session: &mut Session<'_>,
        asked: &[Asked<'_>],
    ) -> Result<Option<Vec<SqliteRow>>> {
        let (statement, size) = self.sql.insert_many(asked.len());
        let mut query = sqlx::query(statement.text());
        for asked in asked {
            query = asked.bind(query);
        }
        for _ in asked.len()..size {
            query = without_claim(query);
        }
        match session {
            Session::Pool(..) => session.write_at_once(query).await,
            Session::Transaction(_) => session.write(query).await.map(Some),
        }
    }
}

impl Asked<'_> {
    fn bind<'q>(&'q self, query: Query<'q>) -> Query<'q> {
        let (key, request) = (self.request.key(), self.request);
        query
            .bind(key.scope())
            .bind(key.operation())
            .bind(key.id())
            .bind(request.fingerprint().to_bytes().to_vec())
            .bind(&request.attempt().as_bytes()[..])
            .bind(self.checked.lease)
            .bind(self.checked.retention)
            .bind(request.on_stale() == StalePolicy::Fail)
            .bind(self.checked.metadata.as_deref())
    }

    fn won(&self, now: i64) -> ClaimOutcome {
        ClaimOutcome::Acquired(Claim::new(
            self.request.key().clone(),
            FencingToken::from_i64(now),
            self.request.attempt(),
            1,
            Timestamp::from_micros(now),
            Timestamp::from_micros(now.saturating_add(self.checked.lease)),
        ))
    }
}

/// The parameters of a row that nobody asked for.
fn without_claim(mut query: Query<'_>) -> Query<'_> {
    for _ in 0..PARAMETERS {
        query = query.bind(None::<&str>);
    }
    query
}

/// The attempt that a row carries, and the clock when it was written.
fn inserted(row: &SqliteRow) -> Result<(&[u8], i64)> {
    let attempt = row.try_get_unchecked(0).map_err(decode)?;
    let now = row.try_get_unchecked(1).map_err(decode)?;
    Ok((attempt, now))
}
