//! The operations except claims, on the store's connections or in a caller's transaction.

use idem_core::backend::{DuplicateEstimator, LockedKeys, StoredRecord, Turn, encode_failure};
use idem_core::{Advance, Claim, Effect, Error, ErrorKind, Failure, Key, Limits, Record, Result};
use idem_sql::cells::{Columns, Row};
use idem_sql::maintenance::Task;
use idem_sql::operations::{self, Operations as _, Read, Write};
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{Step, not_advanced};

use crate::config::Config;
use crate::connection::End;
use crate::error::{Access, is_locked};
use crate::query::Query;
use crate::row;
use crate::session::Session;
use crate::statements::Statements;

/// The state that all operations need beside a session.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) config: Config,
    pub(crate) sql: Statements,
    pub(crate) estimator: DuplicateEstimator,
    /// The keys of records, and of marks, that open transactions hold.
    pub(crate) locked: LockedKeys,
    pub(crate) locked_marks: LockedKeys,
}

impl Operations {
    pub(crate) fn new(config: Config) -> Self {
        let sql = Statements::new(&config);
        Self {
            config,
            sql,
            estimator: DuplicateEstimator::new(),
            locked: LockedKeys::new(),
            locked_marks: LockedKeys::new(),
        }
    }

    /// Returns the rows of a statement that may wait for its key's lock. On the store's connections
    /// it waits for its turn first; a caller's transaction may hold the lock itself, and waits for
    /// no turn.
    pub(crate) async fn rows_in_turn(
        &self,
        session: &mut Session<'_>,
        locked: &LockedKeys,
        key: &Key,
        query: Query<'_>,
        end: End,
    ) -> Result<Vec<Row>> {
        if !session.commits_each() {
            let rows = session.rows_until(query, Access::Write, end).await;
            return rows.map_err(|error| self.noted(locked, key, error));
        }
        let deadline = tokio::time::Instant::now() + self.config.timeout();
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            if let Some(turn) = locked.turn(key, left).await? {
                let rows = session.rows_until(query, Access::Write, end).await;
                return rows.map_err(|error| found(turn, error));
            }
        }
    }

    /// Remembers that a caller's transaction has waited for the key in vain.
    pub(crate) fn noted(&self, locked: &LockedKeys, key: &Key, error: Error) -> Error {
        if !is_locked(&error) {
            return error;
        }
        locked.found_locked(key);
        LockedKeys::error().with_source(error)
    }

    /// Returns the claim's record, as far as it was committed.
    async fn committed(&self, session: &mut Session<'_>, claim: &Claim) -> Result<Option<Owned>> {
        let values = Values::of_claim(claim);
        let row = self
            .read(session, claim.key(), Read::Owned, &values)
            .await?;
        let Some(row) = row.as_ref().map(Columns::of) else {
            return Ok(None);
        };
        let (token, is_attempts, counts) =
            (row.number(2)?, row.number(3)? != 0, row.number(4)? != 0);
        Ok(Some(Owned {
            state: row.number(0)?,
            result: row.optional_bytes(1)?.map(<[u8]>::to_vec),
            token,
            is_own: token == claim.token().as_i64() && is_attempts && counts,
        }))
    }

    pub(crate) async fn maintain(
        &self,
        session: &mut Session<'_>,
        task: Task,
        limit: u32,
    ) -> Result<u64> {
        let statement = match task {
            Task::DeleteExpired => &self.sql.delete_expired,
            Task::FailAbandoned => &self.sql.fail_abandoned,
            Task::DeleteExpiredWatermarks => &self.sql.delete_expired_watermarks,
        };
        let failure = encode_failure(&Failure::abandoned())?;
        let values = Values::default()
            .with(Parameter::Limit, i64::from(limit))
            .with(Parameter::Result, &failure[..]);
        let query = statement.with(&values)?;
        let rows = session.rows(query, Access::Write).await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::corrupt("a count has no row"))?;
        Ok(u64::try_from(Columns::of(row).number(0)?).unwrap_or(0))
    }
}

impl operations::Operations for Operations {
    type Session<'s> = Session<'s>;

    fn limits(&self) -> Limits {
        self.config.limits()
    }

    fn topic(&self, key: &Key) -> Option<String> {
        self.config.notifies().then(|| key.hashed())
    }

    async fn write(
        &self,
        session: &mut Self::Session<'_>,
        key: &Key,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        let statement = match (what, &*session) {
            (Write::Seal, Session::Transaction { is_marked, .. }) if *is_marked => {
                &self.sql.seal_begun
            }
            _ => self.sql.to_write(what),
        };
        let query = statement.with(values)?;
        if what == Write::Abandon {
            // The claim has its turn already.
            let rows = session.rows(query, Access::Write).await?;
            return Ok(rows.into_iter().next());
        }
        let rows = self.rows_in_turn(session, &self.locked, key, query, End::Commit);
        Ok(rows.await?.into_iter().next())
    }

    async fn read(
        &self,
        session: &mut Self::Session<'_>,
        _: &Key,
        what: Read,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        let query = self.sql.to_read(what).with(values)?;
        let rows = session.rows(query, Access::Read).await?;
        Ok(rows.into_iter().next())
    }

    async fn get(&self, session: &mut Self::Session<'_>, key: &Key) -> Result<Option<Record>> {
        let values = Values::of_key(key);
        let row = self.read(session, key, Read::Record, &values).await?;
        let record = row.as_ref().map_or(Ok(None), Self::record)?;
        self.replicated_record(session, key, record).await
    }

    async fn list(&self, session: &mut Self::Session<'_>, values: &Values<'_>) -> Result<Vec<Row>> {
        let query = self.sql.list.with(values)?;
        session.rows(query, Access::Read).await
    }

    fn record(row: &Row) -> Result<Option<Record>> {
        row::live_record(Columns::of(row))
    }

    /// A step that changes nothing has lost its claim, or an open transaction hides the claim: one
    /// that was acquired in the transaction is invisible to others. So the claim is lost only when
    /// the key's lock is free.
    async fn step(
        &self,
        session: &mut Self::Session<'_>,
        claim: &Claim,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Step<Row>> {
        let (locked, key) = (&self.locked, claim.key());
        if let Some(row) = self.write(session, key, what, values).await? {
            return Ok(Step::Done(row));
        }
        match self.committed(session, claim).await? {
            // The statement did not see the record: it was committed since.
            Some(owned) if owned.is_own && owned.state == StoredRecord::IN_FLIGHT => {
                return Err(just_committed());
            }
            Some(owned) if owned.is_own => {
                // The commit of an earlier completion may have waited in vain.
                self.replicated_step(session, claim, owned.state).await?;
                return Ok(Step::Met(owned.state, owned.result));
            }
            Some(owned) if owned.token >= claim.token().as_i64() => {
                return Err(Error::claim_lost());
            }
            _ => {}
        }
        let values = Values::of_key(key);
        let probe = self.sql.probe.with(&values)?;
        self.rows_in_turn(session, locked, key, probe, End::Rollback)
            .await
            .map_err(|error| match error.kind() {
                ErrorKind::Contention => own_transaction(error),
                _ => error,
            })?;
        // The transaction may have committed since the statement's read.
        match self.committed(session, claim).await? {
            Some(owned) if owned.is_own => Err(just_committed()),
            _ => Err(Error::claim_lost()),
        }
    }

    /// Where an open transaction has locked the mark, the committed mark may answer.
    async fn raise(
        &self,
        session: &mut Self::Session<'_>,
        source: &Key,
        version: u64,
        values: &Values<'_>,
        _: u32,
    ) -> Result<Option<Advance>> {
        let query = self.sql.advance.with(values)?;
        let rows = self.rows_in_turn(session, &self.locked_marks, source, query, End::Commit);
        let rows = match rows.await {
            Err(error) if error.kind() == ErrorKind::Contention && session.commits_each() => {
                return match self.watermark(session, source).await? {
                    Some(current) if current >= version => {
                        self.mark_is_replicated(session, values).await?;
                        Ok(Some(not_advanced(current, version)))
                    }
                    _ => Err(error),
                };
            }
            rows => rows?,
        };
        let advance = |row: &Row| {
            let held = Columns::of(row).optional_number(0)?;
            let not_advanced = |current: i64| not_advanced(current.cast_unsigned(), version);
            Ok(held.map_or(Advance::Advanced, not_advanced))
        };
        let raised = rows.first().map(advance).transpose()?;
        if raised.is_some_and(|raised| raised != Advance::Advanced) {
            self.mark_is_replicated(session, values).await?;
        }
        Ok(raised)
    }
}

/// The committed state of a claim's key.
#[derive(Debug)]
pub(crate) struct Owned {
    state: i64,
    result: Option<Vec<u8>>,
    token: i64,
    /// Whether the acquisition is the claim's own, and counts.
    is_own: bool,
}

/// Ends the turn, and remembers a wait in vain.
pub(crate) fn found(turn: Turn, error: Error) -> Error {
    if !is_locked(&error) {
        return error;
    }
    turn.found_locked();
    LockedKeys::error().with_source(error)
}

fn own_transaction(source: Error) -> Error {
    let message = "an open transaction holds the key, and the claim may have been taken in it: complete it \
                   there, or after its commit";
    Error::new(ErrorKind::Contention, Effect::None, message).with_source(source)
}

fn just_committed() -> Error {
    Error::new(
        ErrorKind::Contention,
        Effect::None,
        "the claim's transaction has just committed; ask again",
    )
}
