//! The operations, on the pool or in a caller's transaction.
//!
//! | a claim of | expected fresh | expected duplicate |
//! | --- | --- | --- |
//! | a fresh key | one write | one read, one write |
//! | a duplicate | one write that changes nothing, one read | one read |
//!
//! Where keys are expected to be fresh, the write comes first only if the write lock is free at
//! that moment, so no duplicate waits for a writer. A wrong expectation costs a statement and
//! changes no answer.

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
    pub(crate) fn new(config: Config) -> Self {
        let sql = Statements::new(&config);
        Self {
            config,
            sql,
            estimator: DuplicateEstimator::new(),
        }
    }

    /// Writes first where keys are mostly fresh, if the write lock is free. Otherwise, and in a
    /// caller's transaction, reads first, so that no duplicate waits for the lock.
    pub(crate) async fn claim(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let params = ClaimParams::new(request, &self.config.limits())?;
        if !self.estimator.expects_duplicate(request.key()) {
            let values = params.values();
            let statement = self.sql.acquire.with(&values)?;
            let rows = session.write_at_once(statement).await?.unwrap_or_default();
            if let Some(row) = rows.first() {
                self.estimator.record(request.key(), false);
                return Columns::of(row).outcome(request);
            }
        }
        self.claim_with(session, &params, false).await
    }

    /// Claims by reads and writes in turn. `seen`: the record was read a moment ago, so the write
    /// comes first.
    pub(crate) async fn claim_with(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
        mut seen: bool,
    ) -> Result<ClaimOutcome> {
        let (request, values) = (params.request, params.values());
        for _ in 0..MAX_RETRIES {
            let mut row = match std::mem::take(&mut seen) {
                true => None,
                false => session.read(self.sql.held.with(&values)?).await?,
            };
            if row.is_none() {
                let statement = self.sql.acquire.with(&values)?;
                row = session.write(statement).await?.into_iter().next();
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
        _: &Key,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
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
        _: &Key,
        version: u64,
        values: &Values<'_>,
        _: u32,
    ) -> Result<Option<Advance>> {
        if let Some(row) = session.read(self.sql.raised.with(values)?).await? {
            let current = Columns::of(&row).number(0)?.cast_unsigned();
            return Ok(Some(not_advanced(current, version)));
        }
        let written = session.write(self.sql.raise.with(values)?).await?;
        Ok((!written.is_empty()).then_some(Advance::Advanced))
    }
}

#[cfg(test)]
mod tests {
    use idem_core::{BatchStore, ErrorKind, Fingerprint, IdempotencyStore};

    use super::*;
    use crate::SqliteStore;

    fn request(id: usize) -> ClaimRequest {
        let key = Key::new("tenant", "pay", id.to_string()).unwrap();
        ClaimRequest::new(key, Fingerprint::raw("request"))
    }

    async fn claim(store: &SqliteStore, id: usize, in_batch: bool) -> ClaimOutcome {
        match in_batch {
            true => store.claim_many(&[request(id)]).await.remove(0).unwrap(),
            false => store.claim(&request(id)).await.unwrap(),
        }
    }

    #[tokio::test]
    async fn the_largest_token_is_an_error_with_its_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/idem.db", folder.path().display());
        let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
        store.migrate().await.unwrap();
        for (id, change) in [(1, "expires_at = 1"), (2, "state = 3, expires_at = 0")] {
            let _held = store.claim(&request(id)).await.unwrap();
            let query = format!("UPDATE idem_records SET token = {}, {change}", i64::MAX);
            let query = sqlx::query(sqlx::AssertSqlSafe(query));
            query.execute(store.pool()).await.unwrap();
            for in_batch in [false, true] {
                let returned = match in_batch {
                    true => store.claim_many(&[request(id)]).await.remove(0),
                    false => store.claim(&request(id)).await,
                };
                let error = returned.unwrap_err();
                assert_eq!(
                    (error.kind(), error.effect()),
                    (ErrorKind::Corrupt, Effect::None)
                );
                assert!(error.to_string().contains("delete the row"), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn claims_update_the_estimator() {
        for in_batch in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let url = format!("sqlite:{}/idem.db", folder.path().display());
            let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
            store.migrate().await.unwrap();
            let expects = || {
                store
                    .operations
                    .estimator
                    .expects_duplicate(request(0).key())
            };
            for ids in [0..20, 20..60] {
                for id in ids.clone() {
                    assert_eq!(claim(&store, id, in_batch).await.name(), "acquired");
                }
                assert!(!expects(), "all were fresh");
                for _ in ids {
                    assert_eq!(claim(&store, 0, in_batch).await.name(), "in_flight");
                }
                assert!(expects(), "none was");
            }
        }
    }
}
