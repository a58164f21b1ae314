//! The operations but claims, on the store's connections or in a caller's transaction.

use std::time::Duration;

use idem_core::{
    Claim, Error, Failure, Key, Record, Response, Result, StoredRecord, Timestamp, Traffic, check,
};
use sqlx::Row;

use crate::config::Config;
use crate::error::{Sent, decode};
use crate::row::Columns;
use crate::session::{Query, Session};
use crate::statements::{Statement, Statements};

/// What all operations need beside a session.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) config: Config,
    pub(crate) sql: Statements,
    pub(crate) traffic: Traffic,
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

impl Operations {
    pub(crate) fn new(config: Config) -> Self {
        let sql = Statements::new(&config);
        Self {
            config,
            sql,
            traffic: Traffic::new(),
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
        let query = with_claim(&self.sql.seal, claim)
            .bind(sealing.state)
            .bind(&sealing.result[..])
            .bind(sealing.retention);
        let query = self.telling(query, claim.key());
        if !session.rows(query, Sent::Write).await?.is_empty() {
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

    /// The statement with what it tells, where something is told.
    fn telling<'q>(&self, query: Query<'q>, key: &Key) -> Query<'q> {
        match self.config.announces() {
            true => query.bind(key.hashed()),
            false => query,
        }
    }

    pub(crate) async fn release(&self, session: &mut Session<'_>, claim: &Claim) -> Result<()> {
        let query = self.telling(with_claim(&self.sql.release, claim), claim.key());
        if !session.rows(query, Sent::Write).await?.is_empty() {
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
        let query = with_claim(&self.sql.owned, claim);
        let rows = session.rows(query, Sent::Harmless).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let state: i16 = row.try_get_unchecked(0).map_err(decode)?;
        let result = row.try_get_unchecked(1).map_err(decode)?;
        Ok(Some((state.into(), result)))
    }

    pub(crate) async fn renew(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Claim> {
        let query = with_claim(&self.sql.renew, claim).bind(check::lease(lease)?);
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
        let query = with_key(&self.sql.get, key);
        let rows = session.rows(query, Sent::Harmless).await?;
        rows.first()
            .map_or(Ok(None), |row| Columns(row).live_record())
    }
}

pub(crate) fn with_key<'q>(statement: &Statement, key: &'q Key) -> Query<'q> {
    sqlx::query(statement.text())
        .bind(key.scope())
        .bind(key.operation())
        .bind(key.id())
}

pub(crate) fn with_claim<'q>(statement: &Statement, claim: &'q Claim) -> Query<'q> {
    with_key(statement, claim.key())
        .bind(claim.token().as_i64())
        .bind(claim.attempt().as_bytes().to_vec())
}
