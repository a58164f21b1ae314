//! The operations, on the pool or in a caller's transaction.

use std::sync::OnceLock;
use std::time::Duration;

use idem_core::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, FailedPolicy, Failure,
    Key, Record, Response, Result, StalePolicy, StoredRecord, Timestamp, check, encode_failure,
};
use sqlx::Row;
use sqlx::mysql::MySqlRow;

use crate::config::{Config, Returning};
use crate::counters::Counters;
use crate::error::{Sent, decode};
use crate::row::{Columns, Found};
use crate::server::Server;
use crate::session::{Query, Session};
use crate::statements::{Statement, Statements};

/// How often a claim asks again after a statement that found the row changed under it. Each time somebody else
/// got on, so more than a few is a sign of trouble.
pub(crate) const MAX_ASKS: u32 = 16;

/// What all operations need beside a session.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) config: Config,
    pub(crate) sql: Statements,
    pub(crate) counters: Counters,
    returning: OnceLock<bool>,
}

/// What a claim is sealed with, in stored form.
#[derive(Debug)]
pub(crate) struct Sealing {
    state: i64,
    result: Vec<u8>,
    retention: i64,
}

impl Sealing {
    pub(crate) fn len(&self) -> usize {
        self.result.len()
    }

    pub(crate) fn result(&self) -> &[u8] {
        &self.result
    }

    pub(crate) fn retention(&self) -> i64 {
        self.retention
    }
}

/// A checked claim in the form that statements take.
#[derive(Debug)]
pub(crate) struct Asked<'r> {
    pub(crate) request: &'r ClaimRequest,
    fingerprint: Vec<u8>,
    attempt: AttemptId,
    lease: i64,
    kept: i64,
    sweep: Option<i64>,
    metadata: Option<String>,
}

impl<'r> Asked<'r> {
    pub(crate) fn new(request: &'r ClaimRequest, config: &Config) -> Result<Self> {
        let checked = check::claim(request, &config.limits())?;
        Ok(Self {
            request,
            fingerprint: request.fingerprint().to_bytes().to_vec(),
            attempt: request.attempt(),
            lease: checked.lease,
            kept: checked.lease + checked.retention,
            sweep: (request.on_stale() == StalePolicy::Fail).then_some(checked.lease),
            metadata: checked.metadata,
        })
    }

    /// The parameters of one row that is inserted.
    pub(crate) fn bind_row<'q>(&'q self, query: Query<'q>) -> Query<'q> {
        let query = query
            .bind(self.lease)
            .bind(self.kept)
            .bind(self.kept)
            .bind(self.sweep);
        bind_key(query, self.request.key())
            .bind(&self.fingerprint)
            .bind(&self.attempt.as_bytes()[..])
            .bind(self.metadata.as_ref().map(String::as_bytes))
    }

    fn take<'q>(&'q self, statement: &Statement) -> Query<'q> {
        let attempt = &self.attempt.as_bytes()[..];
        let query = sqlx::query(statement.text())
            .bind(attempt)
            .bind(attempt)
            .bind(self.lease)
            .bind(self.kept)
            .bind(self.kept)
            .bind(self.sweep)
            .bind(&self.fingerprint)
            .bind(attempt)
            .bind(self.metadata.as_ref().map(String::as_bytes));
        bind_key(query, self.request.key())
            .bind(&self.fingerprint)
            .bind(attempt)
            .bind(self.request.on_stale() == StalePolicy::Fail)
            .bind(self.request.on_failed() == FailedPolicy::Retry)
    }

    fn look<'q>(&'q self, statement: &Statement) -> Query<'q> {
        let query = sqlx::query(statement.text()).bind(&self.fingerprint);
        bind_key(query, self.request.key())
    }
}

impl Operations {
    pub(crate) fn new(config: Config) -> Self {
        let sql = Statements::new(&config);
        Self {
            config,
            sql,
            counters: Counters::default(),
            returning: OnceLock::new(),
        }
    }

    /// Looks first, because a duplicate is answered without a write. What it has written is proven by the row that
    /// carries this attempt's id.
    pub(crate) async fn claim(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let asked = Asked::new(request, &self.config)?;
        let mut has_written = false;
        let mut row = self.look(session, &asked, has_written).await?;
        for _ in 0..MAX_ASKS {
            let found = row
                .as_ref()
                .map(|row| Columns(row).found(request))
                .transpose()?;
            match (found, &row) {
                (Some(Found::Own), Some(row)) if has_written => {
                    return Ok(ClaimOutcome::Acquired(
                        Columns(row).stored()?.claim(request),
                    ));
                }
                (Some(Found::Held), Some(row)) => return Columns(row).stored()?.loses(request),
                (Some(Found::Abandoned), Some(seen)) => {
                    if let Some(outcome) = self.abandon(session, &asked, seen).await? {
                        return Ok(outcome);
                    }
                }
                (None, _) => {
                    let inserted = self.insert(session, &asked).await?;
                    has_written = true;
                    if inserted.is_some() {
                        row = inserted;
                        continue;
                    }
                }
                _ => {
                    session.write(|| asked.take(&self.sql.take)).await?;
                }
            }
            has_written = true;
            row = self.look(session, &asked, has_written).await?;
        }
        Err(Error::new(
            ErrorKind::Contention,
            Effect::Unknown,
            format!("the key changed hands {MAX_ASKS} times while it was claimed; ask again"),
        ))
    }

    /// The record, if there is one. After a write it tells what the write has met, and its failure leaves the effect
    /// of that unknown.
    async fn look(
        &self,
        session: &mut Session<'_>,
        asked: &Asked<'_>,
        has_written: bool,
    ) -> Result<Option<MySqlRow>> {
        let (statement, sent) = if !has_written {
            (&self.sql.look, Sent::Harmless)
        } else if session.is_transaction() {
            (&self.sql.look_latest, Sent::Write)
        } else {
            (&self.sql.look, Sent::Write)
        };
        let rows = session.rows(|| asked.look(statement), sent).await?;
        Ok(rows.into_iter().next())
    }

    /// Inserts the record where there is none; the row that is there now, where the server tells it at once.
    async fn insert(
        &self,
        session: &mut Session<'_>,
        asked: &Asked<'_>,
    ) -> Result<Option<MySqlRow>> {
        if self.has_returning(session).await? {
            let (statement, _) = self.sql.insert_returning.at_least(1);
            let query = || asked.bind_row(sqlx::query(statement.text()));
            let rows = session.rows(query, Sent::Write).await?;
            // A loser's row comes without the result, which is then read.
            let own = |row: &MySqlRow| Columns(row).found(asked.request);
            return match rows.into_iter().next() {
                Some(row) if own(&row)? == Found::Own => Ok(Some(row)),
                _ => Ok(None),
            };
        }
        let (statement, _) = self.sql.insert.at_least(1);
        let query = || asked.bind_row(sqlx::query(statement.text()));
        session.write(query).await?;
        Ok(None)
    }

    /// Whether the server answers an INSERT with rows.
    pub(crate) async fn has_returning(&self, session: &mut Session<'_>) -> Result<bool> {
        if let Some(&known) = self.returning.get() {
            return Ok(known);
        }
        let has = match self.config.returning() {
            Returning::Always => true,
            Returning::Never => false,
            Returning::Detect => Server::read(session).await?.has_returning(),
        };
        Ok(*self.returning.get_or_init(|| has))
    }

    /// Fails the stale record that was seen; `None` when it has changed since.
    async fn abandon(
        &self,
        session: &mut Session<'_>,
        asked: &Asked<'_>,
        seen: &MySqlRow,
    ) -> Result<Option<ClaimOutcome>> {
        let failure = encode_failure(&Failure::abandoned())?;
        let token = Columns(seen).token()?;
        let query = || {
            let query = sqlx::query(self.sql.abandon.text()).bind(&failure[..]);
            bind_key(query, asked.request.key()).bind(token.as_i64())
        };
        session.write(query).await?;
        let row = self.look(session, asked, true).await?;
        match &row {
            Some(row) if Columns(row).is_failed(token)? => {
                Columns(row).stored()?.loses(asked.request).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn response(&self, response: &Response, retention: Duration) -> Result<Sealing> {
        Ok(Sealing {
            state: StoredRecord::COMPLETED,
            retention: check::retention(retention)?,
            result: check::response(response, &self.config.limits())?.into(),
        })
    }

    pub(crate) fn failure(&self, failure: &Failure, retention: Duration) -> Result<Sealing> {
        Ok(Sealing {
            state: StoredRecord::FAILED,
            retention: check::retention(retention)?,
            result: check::failure(failure, &self.config.limits())?.into(),
        })
    }

    pub(crate) async fn seal(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        sealing: &Sealing,
    ) -> Result<()> {
        let query = || {
            let mut query = sqlx::query(self.sql.seal.text())
                .bind(sealing.state)
                .bind(&sealing.result[..]);
            for _ in 0..RETENTIONS_OF_SEAL {
                query = query.bind(sealing.retention);
            }
            bind_claim(query, claim)
        };
        if session.write(query).await? > 0 {
            return Ok(());
        }
        match self.owned(session, claim).await? {
            Some((state, result)) if state == sealing.state => {
                if result.as_deref() == Some(&sealing.result[..]) {
                    Ok(())
                } else {
                    Err(Error::already_sealed())
                }
            }
            Some((StoredRecord::COMPLETED | StoredRecord::FAILED, _)) => {
                Err(Error::already_sealed())
            }
            _ => Err(Error::claim_lost()),
        }
    }

    pub(crate) async fn release(&self, session: &mut Session<'_>, claim: &Claim) -> Result<()> {
        let query = || bind_claim(sqlx::query(self.sql.release.text()), claim);
        if session.write(query).await? > 0 {
            return Ok(());
        }
        match self.owned(session, claim).await? {
            Some((StoredRecord::RELEASED, _)) => Ok(()),
            _ => Err(Error::claim_lost()),
        }
    }

    /// State and result of the claim's own record, when it is still the latest acquisition.
    async fn owned(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<(i64, Option<Vec<u8>>)>> {
        let statement = if session.is_transaction() {
            &self.sql.owned_latest
        } else {
            &self.sql.owned
        };
        let query = || bind_claim(sqlx::query(statement.text()), claim);
        let rows = session.rows(query, Sent::Harmless).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let state: i64 = row.try_get_unchecked(0).map_err(decode)?;
        let result = row.try_get_unchecked(1).map_err(decode)?;
        Ok(Some((state, result)))
    }

    pub(crate) async fn renew(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Claim> {
        let lease = check::lease(lease)?;
        let renew = || {
            let query = sqlx::query(self.sql.renew.text())
                .bind(lease)
                .bind(lease)
                .bind(lease)
                .bind(lease);
            bind_claim(query, claim)
        };
        if session.write(renew).await? == 0 {
            return Err(Error::claim_lost());
        }
        let query = || bind_claim(sqlx::query(self.sql.lease.text()), claim);
        let rows = session.rows(query, Sent::Write).await?;
        let row = rows.first().ok_or_else(Error::claim_lost)?;
        let number = |index| row.try_get_unchecked::<i64, usize>(index).map_err(decode);
        Ok(Claim::new(
            claim.key().clone(),
            claim.token(),
            claim.attempt(),
            claim.attempts(),
            Timestamp::from_micros(number(1)?),
            Timestamp::from_micros(number(0)?),
        ))
    }

    pub(crate) async fn get(&self, session: &mut Session<'_>, key: &Key) -> Result<Option<Record>> {
        let query = || bind_key(sqlx::query(self.sql.get.text()), key);
        let rows = session.rows(query, Sent::Harmless).await?;
        rows.first().map(|row| Columns(row).record()).transpose()
    }
}

/// How often [`sql::SEAL`](crate::sql::SEAL) names the retention.
const RETENTIONS_OF_SEAL: usize = 5;

pub(crate) fn bind_key<'q>(query: Query<'q>, key: &'q Key) -> Query<'q> {
    query
        .bind(key.scope().as_bytes())
        .bind(key.operation().as_bytes())
        .bind(key.id().as_bytes())
}

pub(crate) fn bind_claim<'q>(query: Query<'q>, claim: &'q Claim) -> Query<'q> {
    bind_key(query, claim.key())
        .bind(claim.token().as_i64())
        .bind(claim.attempt().as_bytes().to_vec())
}
