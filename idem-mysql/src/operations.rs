//! The operations except claims, on a connection of the store or in a caller's transaction.

use std::sync::OnceLock;
use std::time::Duration;

use idem_core::backend::{DuplicateEstimator, FinalResult, LockedKeys, check};
use idem_core::{Claim, Error, Key, Record, Result};
use idem_sql::cells;
use idem_sql::executor::BoundStatement;
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{Step, renewed};

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

    pub(crate) async fn finish(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        result: &FinalResult,
    ) -> Result<()> {
        let sql = self.sql(session).await?;
        let statement = match result.is_release() {
            true => &sql.release,
            false => &sql.seal,
        };
        let values = Values::of_claim(claim).with_result(result);
        let statement = statement.with(&values)?;
        let step = self.step(session, sql, claim, &statement).await?;
        step.finished(result)
    }

    /// Runs a step of the claim's holder.
    async fn step(
        &self,
        session: &mut Session<'_>,
        sql: &Statements,
        claim: &Claim,
        statement: &BoundStatement<'_>,
    ) -> Result<Step<()>> {
        match self.write_locked(session, claim.key(), statement).await? {
            0 => Step::met(self.owned(session, sql, claim).await?),
            _ => Ok(Step::Done(())),
        }
    }

    /// Returns state and result of the claim's own record, when it is still the latest acquisition.
    async fn owned(
        &self,
        session: &mut Session<'_>,
        sql: &Statements,
        claim: &Claim,
    ) -> Result<Option<(i64, Option<Vec<u8>>)>> {
        let statement = if session.is_transaction() {
            &sql.owned_latest
        } else {
            &sql.owned
        };
        let values = Values::of_claim(claim);
        let rows = session
            .rows(&statement.with(&values)?, Access::Read)
            .await?;
        let Some(row) = rows.first().map(cells::Columns::of) else {
            return Ok(None);
        };
        let result = row.optional_bytes(1)?;
        Ok(Some((row.number(0)?, result.map(<[u8]>::to_vec))))
    }

    pub(crate) async fn renew(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Claim> {
        let lease = check::lease(lease)?;
        let sql = self.sql(session).await?;
        let values = Values::of_claim(claim).with(Parameter::Lease, lease);
        let renew = sql.renew.with(&values)?;
        if self.write_locked(session, claim.key(), &renew).await? == 0 {
            return Err(Error::claim_lost());
        }
        let rows = session
            .rows(&sql.lease.with(&values)?, Access::Write)
            .await?;
        let row = cells::Columns::of(rows.first().ok_or_else(Error::claim_lost)?);
        Ok(renewed(claim, row.number(1)?, row.number(0)?))
    }

    pub(crate) async fn get(&self, session: &mut Session<'_>, key: &Key) -> Result<Option<Record>> {
        let sql = self.sql(session).await?;
        let values = Values::of_key(key);
        let rows = session.rows(&sql.get.with(&values)?, Access::Read).await?;
        rows.first()
            .map(|row| Columns::of(row)?.record())
            .transpose()
    }
}
