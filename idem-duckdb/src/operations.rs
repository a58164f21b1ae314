//! The operations, on connections of the store or in a caller's transaction.
//!
//! | a claim of | expected fresh | expected duplicate |
//! | --- | --- | --- |
//! | a fresh key | one write | one read, one write |
//! | a duplicate | one write that changes nothing, one read | one read |
//!
//! A wrong expectation costs a statement and changes no answer.

use idem_core::backend::decision::is_abandoned;
use idem_core::backend::{DuplicateEstimator, encode_failure};
use idem_core::{Advance, ClaimOutcome, ClaimRequest, Effect, Error, Failure, Key, Limits, Result};
use idem_sql::cells::{Columns, Row};
use idem_sql::claim::ClaimParams;
use idem_sql::maintenance::Task;
use idem_sql::operations::{self, Operations as _, Read, Write};
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{MAX_RETRIES, key_changed_hands, not_advanced};

use crate::config::Config;
use crate::held::Name;
use crate::session::Session;
use crate::statements::Statements;

/// The state that all operations need beside a session.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) config: Config,
    pub(crate) sql: Statements,
    pub(crate) estimator: DuplicateEstimator,
}

impl Operations {
    pub(crate) fn new(config: Config, database: &str) -> Self {
        let sql = Statements::new(&config, database);
        Self {
            config,
            sql,
            estimator: DuplicateEstimator::new(),
        }
    }

    /// Writes first where keys are mostly fresh, and otherwise reads first.
    pub(crate) async fn claim(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let params = ClaimParams::new(request, &self.config.limits())?;
        let is_expected = self.estimator.expects_duplicate(request.key());
        // In a transaction a write would hold the key, for a duplicate too.
        let writes_first = !is_expected && session.commits_each();
        self.claim_with(session, &params, writes_first).await
    }

    /// Claims by reads and writes in turn.
    pub(crate) async fn claim_with(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
        mut writes_first: bool,
    ) -> Result<ClaimOutcome> {
        let (request, values) = (params.request, params.values());
        let name = Name::record(request.key());
        for _ in 0..MAX_RETRIES {
            let mut row = None;
            if std::mem::take(&mut writes_first) && !session.is_held_elsewhere(&name)? {
                row = self.acquired(session, &values).await?;
            }
            if row.is_none() {
                row = session.read(self.sql.held.with(&values)?).await?;
            }
            if row.is_none() {
                session.turn(&name, self.config.retry_timeout()).await?;
                row = self.acquired(session, &values).await?;
            }
            let Some(row) = row else {
                self.check_token(session, request.key()).await?;
                tokio::task::yield_now().await;
                continue;
            };
            let outcome = Columns::of(&row).outcome(request)?;
            let acquired = matches!(outcome, ClaimOutcome::Acquired(_));
            self.estimator.record(request.key(), !acquired);
            if let Some(outcome) = self.claimed(session, request, &row).await? {
                return Ok(outcome);
            }
        }
        Err(key_changed_hands(Effect::None))
    }

    async fn acquired(
        &self,
        session: &mut Session<'_>,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        let rows = session.write(self.sql.acquire.with(values)?).await?;
        Ok(rows.into_iter().next())
    }

    /// Checks that the next token of the record can be greater.
    async fn check_token(&self, session: &mut Session<'_>, key: &Key) -> Result<()> {
        let values = Values::of_key(key);
        match session.read(self.sql.exhausted.with(&values)?).await? {
            None => Ok(()),
            Some(_) => Err(Error::corrupt(
                "the record's fencing token is the largest number, which no clock gives, and no greater one is left; \
                 something else has written it: delete the row (token = 9223372036854775807) once nobody holds the key",
            )),
        }
    }

    /// Answers a duplicate by a read alone; `None` when the claim may acquire the key or has to
    /// fail a stale record.
    pub(crate) async fn held(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
    ) -> Result<Option<ClaimOutcome>> {
        let (request, values) = (params.request, params.values());
        let row = session.read(self.sql.held.with(&values)?).await?;
        let held = row.map(|row| Columns::of(&row).outcome(request));
        let returned = held
            .transpose()?
            .filter(|outcome| !is_abandoned(outcome, request));
        if returned.is_some() {
            self.estimator.record(request.key(), true);
        }
        Ok(returned)
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
        let rows = session.write(statement.with(&values)?).await?;
        Ok(rows.len() as u64)
    }
}

impl operations::Operations for Operations {
    type Session<'s> = Session<'s>;

    fn limits(&self) -> Limits {
        self.config.limits()
    }

    async fn write(
        &self,
        session: &mut Self::Session<'_>,
        key: &Key,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        let limit = self.config.retry_timeout();
        session.turn(&Name::record(key), limit).await?;
        let statement = self.sql.to_write(what).with(values)?;
        let rows = session.write(statement).await?;
        Ok(rows.into_iter().next())
    }

    async fn read(
        &self,
        session: &mut Self::Session<'_>,
        _: &Key,
        what: Read,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        session.read(self.sql.to_read(what).with(values)?).await
    }

    async fn list(&self, session: &mut Self::Session<'_>, values: &Values<'_>) -> Result<Vec<Row>> {
        session.read_all(self.sql.list.with(values)?).await
    }

    async fn raise(
        &self,
        session: &mut Self::Session<'_>,
        source: &Key,
        version: u64,
        values: &Values<'_>,
        _: u32,
    ) -> Result<Option<Advance>> {
        if let Some(row) = session.read(self.sql.raised.with(values)?).await? {
            let current = Columns::of(&row).number(0)?.cast_unsigned();
            return Ok(Some(not_advanced(current, version)));
        }
        let limit = self.config.retry_timeout();
        session.turn(&Name::mark(source), limit).await?;
        let written = session.write(self.sql.raise.with(values)?).await?;
        Ok((!written.is_empty()).then_some(Advance::Advanced))
    }
}
