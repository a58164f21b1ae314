//! The operations except claims, on a connection of the store or in a caller's transaction.

use std::sync::OnceLock;

use idem_core::backend::{DuplicateEstimator, LockedKeys};
use idem_core::{Claim, Key, Limits, Record, Result};
use idem_sql::cells::Row;
use idem_sql::operations::{self, Read, Write};
use idem_sql::parameters::Values;
use idem_sql::step::Step;

use crate::config::Config;
use crate::counters::Counters;
use crate::error::Access;
use crate::row::Columns;
use crate::server::{Facts, Server};
use crate::session::Session;
use crate::statements::{Dialect, Statements};
use crate::watermarks::Mark;

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
    facts: OnceLock<Facts>,
}

impl Operations {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            texts: [Dialect::MariaDb, Dialect::MySql]
                .map(|dialect| Statements::new(&config, dialect)),
            estimator: DuplicateEstimator::expecting_duplicates(),
            config,
            counters: Counters::default(),
            locked: LockedKeys::new(),
            locked_marks: LockedKeys::new(),
            facts: OnceLock::new(),
        }
    }

    /// Returns the facts about the server; the first operation reads them.
    pub(crate) async fn facts(&self, session: &mut Session<'_>) -> Result<Facts> {
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
        let statement = match what {
            Write::Seal => &sql.seal,
            Write::Release => &sql.release,
            Write::Renew => &sql.renew,
            Write::Checkpoint => &sql.checkpoint,
            Write::Abandon => &sql.abandon,
        };
        let statement = statement.with(values)?;
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
            (Read::Owned, false) => &sql.owned,
            (Read::Owned, true) => &sql.owned_latest,
            (Read::Record, _) => &sql.get,
            (Read::LastCheckpoint, false) => &sql.last_checkpoint,
            (Read::LastCheckpoint, true) => &sql.last_checkpoint_latest,
            (Read::Watermark, _) => &sql.mark,
        };
        let rows = session.rows(&statement.with(values)?, Access::Read).await?;
        let Some(row) = rows.into_iter().next() else {
            return Ok(None);
        };
        let counts = what != Read::Watermark || Mark::of(&row)?.is_live;
        Ok(counts.then_some(row))
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
}
