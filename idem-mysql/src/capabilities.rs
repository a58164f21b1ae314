//! Checkpoints and watermarks.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{
    Advance, Bytes, Checkpoint, CheckpointStore, Claim, Effect, Error, ErrorKind, Key, Result,
    WatermarkStore,
};
use sqlx::Row;

use crate::error::{Access, decode};
use crate::operations::{MAX_RETRIES, Operations, bind_claim, bind_key};
use crate::session::Session;
use crate::store::{MySqlStore, at};

/// A mark as it was read.
#[derive(Debug, Clone, Copy)]
struct Mark {
    version: u64,
    is_live: bool,
}

impl Operations {
    pub(crate) async fn checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let stored = checkpoint.encode(&self.config.limits())?;
        let sql = self.sql(session).await?;
        let query = || {
            let query = sqlx::query(sql.checkpoint.text()).bind(&stored[..]);
            sql.bind_probe(bind_claim(query, claim), claim.key())
        };
        if self.write_locked(session, claim.key(), query).await? > 0 {
            return Ok(());
        }
        self.last_checkpoint(session, claim).await.map(drop)
    }

    async fn last_checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Checkpoint>> {
        let sql = self.sql(session).await?;
        let statement = if session.is_transaction() {
            &sql.last_checkpoint_latest
        } else {
            &sql.last_checkpoint
        };
        let query = || bind_claim(sqlx::query(statement.text()), claim);
        let rows = session.rows(query, Access::Read).await?;
        let row = rows.first().ok_or_else(Error::claim_lost)?;
        let stored: Option<Vec<u8>> = row.try_get_unchecked(0).map_err(decode)?;
        let stored = stored.map(Bytes::from);
        stored.as_ref().map(Checkpoint::decode).transpose()
    }

    /// Reads first, because what is stale or a repetition is answered without a write. Who raised the mark is proven by
    /// the count of the statement that did.
    pub(crate) async fn advance(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        let (wanted, retention) = (check::version(version)?, check::retention(retention)?);
        let sql = self.sql(session).await?;
        let first = || {
            let query = bind_key(sqlx::query(sql.first_mark.text()), source);
            sql.bind_probe(query.bind(wanted).bind(retention), source)
        };
        let first_plain = || {
            let query = bind_key(sqlx::query(sql.first_mark_plain.text()), source);
            query.bind(wanted).bind(retention)
        };
        let raise = || {
            let query = sqlx::query(sql.raise.text()).bind(wanted);
            let query = bind_key(query.bind(retention), source).bind(wanted);
            sql.bind_probe(query, source)
        };
        for ask in 0..MAX_RETRIES {
            let mark = self.mark(session, source, ask > 0).await?;
            let is_there = mark.is_some();
            match mark {
                Some(mark) if mark.is_live && mark.version == version => {
                    return Ok(Advance::Unchanged);
                }
                Some(mark) if mark.is_live && mark.version > version => {
                    return Ok(Advance::Stale {
                        current: mark.version,
                    });
                }
                Some(_) | None => {}
            }
            let permit = self.permit(&self.locked_marks, session, source).await?;
            let Some(permit) = permit else { continue };
            let raised = match (is_there, session.is_transaction()) {
                (true, _) => session.write(raise).await,
                (false, true) => self.insert_in(session, first_plain).await,
                (false, false) => {
                    self.without_gaps(session).await?;
                    session.write(first).await
                }
            };
            if permit.settle(source, raised)? > 0 {
                return Ok(Advance::Advanced);
            }
        }
        Err(Error::new(
            ErrorKind::Contention,
            Effect::None,
            format!("the mark was raised {MAX_RETRIES} times while it was advanced; ask again"),
        ))
    }

    async fn mark(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        has_written: bool,
    ) -> Result<Option<Mark>> {
        let sql = self.sql(session).await?;
        let statement = if has_written && session.is_transaction() {
            &sql.mark_latest
        } else {
            &sql.mark
        };
        let query = || bind_key(sqlx::query(statement.text()), source);
        let rows = session.rows(query, Access::Read).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let number = |index| row.try_get_unchecked::<i64, usize>(index).map_err(decode);
        Ok(Some(Mark {
            version: number(0)?.cast_unsigned(),
            is_live: number(1)? != 0,
        }))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl CheckpointStore for MySqlStore {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        self.operations
            .checkpoint(&mut self.session(), claim, checkpoint)
            .await
            .map_err(at("checkpoint"))
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        self.operations
            .last_checkpoint(&mut self.session(), claim)
            .await
            .map_err(at("last_checkpoint"))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl WatermarkStore for MySqlStore {
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        self.operations
            .advance(&mut self.session(), source, version, retention)
            .await
            .map_err(at("advance"))
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        let mut session = self.session();
        let mark = self.operations.mark(&mut session, source, false).await;
        let mark = mark.map_err(at("watermark"))?;
        Ok(mark.filter(|mark| mark.is_live).map(|mark| mark.version))
    }

    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        self.operations
            .delete_expired_watermarks(&mut self.session(), limit)
            .await
            .map_err(at("delete_expired_watermarks"))
    }
}
