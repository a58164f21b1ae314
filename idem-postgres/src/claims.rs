//! Claims.

use idem_core::backend::{FinalResult, LockedKeys};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, FencingToken, Key, Result, Timestamp,
};
use idem_sql::cells::Columns;
use idem_sql::claim::ClaimParams;
use idem_sql::operations::Operations as _;
use idem_sql::parameters::{Parameter, Value, Values};
use idem_sql::step::{MAX_RETRIES, key_changed_hands};
use tokio::time::Instant;

use crate::error::{Access, is_locked, is_of_standby};
use crate::operations::{Operations, found};
use crate::row;
use crate::session::Session;

impl Operations {
    /// Claims a key with one or two cheap statements where they can decide; otherwise with the
    /// statement that decides everything.
    ///
    /// In a caller's transaction only that statement is sent. Two statements would be two snapshots
    /// under READ COMMITTED, and under the other levels the second would see no more than the
    /// first.
    pub(crate) async fn claim(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let params = ClaimParams::new(request, &self.config.limits())?;
        let claimed = match session.commits_each() {
            true => self.claim_in_steps(session, &params).await,
            false => {
                let claimed = self.claim_fully(session, &params).await;
                claimed.map_err(|error| self.noted(&self.locked, request.key(), error))
            }
        };
        self.replicated(session, request.key(), claimed?).await
    }

    /// Inserts a completed record in a transaction that holds the key by its lock. Returns the claim
    /// that it holds; `None` when another record is in the way.
    pub(crate) async fn insert_finished(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
        result: &FinalResult,
    ) -> Result<Option<Claim>> {
        let (key, limits) = (request.key(), self.config.limits());
        let params = ClaimParams::new(request, &limits)?;
        let topic = self.topic(key);
        let values = params.values().with_result(result);
        let values = values.with(Parameter::Topic, Value::OptionalText(topic.as_deref()));
        let query = self.sql.finished.with(&values)?;
        let rows = session.last_rows(query).await;
        let rows = rows.map_err(|error| self.noted(&self.locked, key, error))?;
        let claim = |row| {
            let row = Columns::of(row);
            let attempts = u32::try_from(row.number(1)?).unwrap_or(u32::MAX);
            let (token, at) = (row.number(0)?, Timestamp::from_micros(row.number(2)?));
            let token = FencingToken::from_i64(token);
            Ok(Claim::new(
                key.clone(),
                token,
                request.attempt(),
                attempts,
                at,
                at,
            ))
        };
        rows.first().map(claim).transpose()
    }

    /// Returns whether this transaction holds the key's advisory lock and no live record exists.
    pub(crate) async fn is_free(&self, session: &mut Session<'_>, key: &Key) -> Result<bool> {
        let values = Values::of_key(key);
        let rows = session.rows(self.sql.free.with(&values)?, Access::Read);
        Ok(!rows.await?.is_empty())
    }

    /// Inserts and then reads, or reads and then inserts, as the estimator expects. Sends the
    /// statement that decides everything where the key has a record that may have to be acquired,
    /// or had one in between.
    ///
    /// Only a row that was written makes a winner. Only a live record that this claim must not
    /// touch makes a loser. So the order changes no decision. A change between two statements is
    /// seen by the second, or by the statement that decides everything: a record that the insert
    /// met may be gone, and a record that the read did not see may be there.
    ///
    /// A statement that writes may wait for the key's lock, so it waits for its turn first. After
    /// another caller's turn, or when the key is locked, the claim reads: a committed record
    /// answers without a lock.
    pub(crate) async fn claim_in_steps(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
    ) -> Result<ClaimOutcome> {
        let key = params.request.key();
        if self.locked.is_locked(key) {
            return self.lost_or(session, params, LockedKeys::error()).await;
        }
        let mut next = match self.estimator.expects_duplicate(key) {
            true => Next::Lookup,
            false => Next::Insert,
        };
        let deadline = Instant::now() + self.config.timeout();
        // Whether the key has, or had, a row.
        let mut has_row = false;
        loop {
            if next == Next::Lookup {
                match self.lookup(session, params).await? {
                    Lookup::Lost(outcome) => {
                        self.estimator.record(key, true);
                        return Ok(outcome);
                    }
                    Lookup::Absent if !has_row => next = Next::Insert,
                    Lookup::Absent | Lookup::Acquirable => next = Next::Decide,
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let turn = match self.locked.turn(key, left).await {
                Ok(Some(turn)) => turn,
                Ok(None) => {
                    next = Next::Lookup;
                    continue;
                }
                Err(error) => return self.lost_or(session, params, error).await,
            };
            let claimed = match next {
                Next::Insert => self.insert(session, params).await,
                Next::Lookup | Next::Decide => {
                    has_row = true;
                    let claimed = self.claim_fully(session, params).await;
                    claimed.map(Some)
                }
            };
            match claimed {
                Ok(Some(outcome)) => {
                    self.estimator.record(key, has_row);
                    return Ok(outcome);
                }
                Ok(None) => (has_row, next) = (true, Next::Lookup),
                Err(error) if is_locked(&error) => {
                    return self.lost_or(session, params, found(turn, error)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Answers from the committed record, although an open transaction has locked it; otherwise
    /// returns this error.
    async fn lost_or(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
        error: Error,
    ) -> Result<ClaimOutcome> {
        let lost = async {
            match self.lookup(session, params).await? {
                Lookup::Lost(outcome) => Ok(Some(outcome)),
                Lookup::Absent | Lookup::Acquirable => Ok(None),
            }
        };
        let lost = self.locked.read(params.request.key(), lost).await?;
        lost.ok_or(error)
    }

    /// Inserts the claim, if the key has no record.
    async fn insert(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
    ) -> Result<Option<ClaimOutcome>> {
        let values = params.values();
        let query = self.sql.insert.with(&values)?;
        let rows = session.rows(query, Access::Write).await?;
        let Some(row) = rows.first().map(Columns::of) else {
            return Ok(None);
        };
        Ok(Some(ClaimOutcome::Acquired(
            params.inserted(row.number(0)?),
        )))
    }

    async fn lookup(&self, session: &mut Session<'_>, params: &ClaimParams<'_>) -> Result<Lookup> {
        let values = params.values();
        let query = self.sql.lookup.with(&values)?;
        let rows = match session.rows(query, Access::Read).await {
            // The statement that decides everything writes, so a proxy sends it to the primary.
            Err(error) if is_of_standby(&error) => return Ok(Lookup::Acquirable),
            rows => rows?,
        };
        let Some(row) = rows.first() else {
            return Ok(Lookup::Absent);
        };
        let lost = row::lost(Columns::of(row), params.request)?;
        Ok(lost.map_or(Lookup::Acquirable, Lookup::Lost))
    }

    /// Sends the statement that decides everything, until it decides.
    pub(crate) async fn claim_fully(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
    ) -> Result<ClaimOutcome> {
        let (request, values) = (params.request, params.values());
        for _ in 0..MAX_RETRIES {
            let query = self.sql.claim.with(&values)?;
            let rows = session.rows(query, Access::Write).await?;
            let Some(row) = rows.first() else {
                tokio::task::yield_now().await;
                continue;
            };
            if let Some(outcome) = self.claimed(session, request, row).await? {
                return Ok(outcome);
            }
        }
        Err(key_changed_hands(Effect::None))
    }
}

/// The result of a plain read.
#[derive(Debug)]
enum Lookup {
    /// No record, not even one that has expired.
    Absent,
    /// A record that this claim may have to acquire, or to fail.
    Acquirable,
    /// A live record that this claim must not touch.
    Lost(ClaimOutcome),
}

/// The next statement of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Reads the record.
    Lookup,
    /// Inserts the record, where there is none.
    Insert,
    /// Sends the statement that decides everything.
    Decide,
}
