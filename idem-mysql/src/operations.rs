//! The operations except claims, on a connection of the store or in a caller's transaction.

use std::sync::{Arc, OnceLock};

use idem_core::backend::{DuplicateEstimator, LockedKeys};
use idem_core::{Advance, Claim, Key, Limits, Record, Result};
use idem_sql::cells::{self, Row};
use idem_sql::operations::{self, Read, Write};
use idem_sql::parameters::Values;
use idem_sql::step::{Step, not_advanced};

use crate::config::Config;
use crate::counters::Counters;
use crate::error::Access;
use crate::row::Columns;
use crate::server::{Facts, Server};
use crate::session::Session;
use crate::statements::{Dialect, Statements};

/// The state that all operations need beside a session.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) config: Config,
    texts: [Statements; 2],
    pub(crate) counters: Counters,
    pub(crate) estimator: DuplicateEstimator,
    /// The keys of records, and the sources of marks, that others have locked.
    pub(crate) locked: LockedKeys,
    pub(crate) locked_marks: LockedKeys,
    facts: Arc<OnceLock<Facts>>,
}

impl Operations {
    /// `facts` are set by the first connection that the store opens, or read by the first operation.
    pub(crate) fn new(config: Config, facts: Arc<OnceLock<Facts>>) -> Self {
        Self {
            texts: [Dialect::MariaDb, Dialect::MySql]
                .map(|dialect| Statements::new(&config, dialect)),
            estimator: DuplicateEstimator::new(),
            config,
            counters: Counters::default(),
            locked: LockedKeys::new(),
            locked_marks: LockedKeys::new(),
            facts,
        }
    }

    /// Returns the facts about the server.
    pub(crate) async fn facts(&self, session: &mut Session<'_>) -> Result<Facts> {
        if self.facts.get().is_none() {
            session.open().await?;
        }
        let facts = match self.facts.get() {
            Some(facts) => *facts,
            None => {
                let read = Server::read(session).await?.facts();
                *self.facts.get_or_init(|| read)
            }
        };
        session.set_keeps(facts.keeps_transaction);
        Ok(facts)
    }

    /// Returns the statements in the server's dialect.
    pub(crate) async fn sql(&self, session: &mut Session<'_>) -> Result<&Statements> {
        let [maria, my] = &self.texts;
        Ok(match self.facts(session).await?.dialect {
            Dialect::MariaDb => maria,
            Dialect::MySql => my,
        })
    }
}

impl operations::Operations for Operations {
    type Session<'s> = Session<'s>;

    fn limits(&self) -> Limits {
        self.config.limits()
    }

    fn topic(&self, _: &Key) -> Option<String> {
        None
    }

    /// The statements return no rows, except that a renewal reads its lease afterwards. A checkpoint
    /// that changes nothing, because it is stored already, counts as written where the claim still
    /// holds the record.
    async fn write(
        &self,
        session: &mut Self::Session<'_>,
        key: &Key,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        let sql = self.sql(session).await?;
        let statement = sql.to_write(what).with(values)?;
        let is_written = self.write_locked(session, key, &statement).await? > 0;
        let written: Row = Box::new(());
        match what {
            Write::Renew if is_written => {
                let rows = session
                    .rows(&sql.lease.with(values)?, Access::Write)
                    .await?;
                Ok(rows.into_iter().next())
            }
            Write::Checkpoint if !is_written => {
                let held = self.read(session, key, Read::LastCheckpoint, values);
                Ok(held.await?.map(|_| written))
            }
            _ => Ok(is_written.then_some(written)),
        }
    }

    async fn read(
        &self,
        session: &mut Self::Session<'_>,
        _: &Key,
        what: Read,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        let sql = self.sql(session).await?;
        let statement = match (what, session.is_transaction()) {
            (Read::Owned, true) => &sql.owned_latest,
            (Read::LastCheckpoint, true) => &sql.last_checkpoint_latest,
            (what, _) => sql.to_read(what),
        };
        let rows = session.rows(&statement.with(values)?, Access::Read).await?;
        let Some(row) = rows.into_iter().next() else {
            return Ok(None);
        };
        let counts = what != Read::Watermark || Mark::of(&row)?.is_live;
        Ok(counts.then_some(row))
    }

    async fn list(&self, session: &mut Self::Session<'_>, values: &Values<'_>) -> Result<Vec<Row>> {
        let sql = self.sql(session).await?;
        session.rows(&sql.list.with(values)?, Access::Read).await
    }

    fn record(row: &Row) -> Result<Option<Record>> {
        Columns::of(row)?.record().map(Some)
    }

    async fn step(
        &self,
        session: &mut Self::Session<'_>,
        claim: &Claim,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Step<Row>> {
        match self.write(session, claim.key(), what, values).await? {
            Some(row) => Ok(Step::Done(row)),
            None => Step::met(self.owned(session, claim).await?),
        }
    }

    /// Reads first, because a stale version or a repetition is then answered without a write. The
    /// count of the raising statement proves whether this call raised the mark.
    async fn raise(
        &self,
        session: &mut Self::Session<'_>,
        source: &Key,
        version: u64,
        values: &Values<'_>,
        tries: u32,
    ) -> Result<Option<Advance>> {
        let sql = self.sql(session).await?;
        let read = match tries > 0 && session.is_transaction() {
            true => &sql.watermark_latest,
            false => &sql.watermark,
        };
        let rows = session.rows(&read.with(values)?, Access::Read).await?;
        let mark = rows.first().map(Mark::of).transpose()?;
        if let Some(mark) = mark
            && mark.is_live
            && mark.version >= version
        {
            return Ok(Some(not_advanced(mark.version, version)));
        }
        let permit = self.permit(&self.locked_marks, session, source).await?;
        let Some(permit) = permit else {
            return Ok(None);
        };
        let raised = match (mark.is_some(), session.is_transaction()) {
            (true, _) => session.write(&sql.raise.with(values)?).await,
            (false, true) => {
                let first = sql.first_mark_plain.with(values)?;
                self.insert_in(session, &first).await
            }
            (false, false) => {
                self.without_gaps(session).await?;
                session.write(&sql.first_mark.with(values)?).await
            }
        };
        let is_raised = permit.settle(source, raised)? > 0;
        Ok(is_raised.then_some(Advance::Advanced))
    }
}

/// A mark, as the store read it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    version: u64,
    is_live: bool,
}

impl Mark {
    fn of(row: &Row) -> Result<Self> {
        let row = cells::Columns::of(row);
        Ok(Self {
            version: row.number(0)?.cast_unsigned(),
            is_live: row.number(1)? != 0,
        })
    }
}
