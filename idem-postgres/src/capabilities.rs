//! Checkpoints and watermarks.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{
    Advance, Bytes, Checkpoint, CheckpointStore, Claim, Effect, Error, ErrorKind, Key, Result,
    WatermarkStore,
};

use crate::claims::MAX_RETRIES;
use crate::connection::End;
use crate::error::Access;
use crate::operations::{Operations, with_claim, with_key};
use crate::row::cell;
use crate::session::Session;
use crate::store::{PostgresStore, at};

impl Operations {
    pub(crate) async fn checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let stored = checkpoint.encode(&self.config.limits())?;
        let query = || with_claim(&self.sql.checkpoint, claim).bind(&stored[..]);
        let row = self.step(session, claim, query, |_| None).await?;
        row.map(drop).ok_or_else(Error::claim_lost)
    }

    async fn last_checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Checkpoint>> {
        let query = with_claim(&self.sql.last_checkpoint, claim);
        let rows = session.rows(query, Access::Read).await?;
        let row = rows.first().ok_or_else(Error::claim_lost)?;
        let stored: Option<Vec<u8>> = cell(row, 0)?;
        let stored = stored.map(Bytes::from);
        stored.as_ref().map(Checkpoint::decode).transpose()
    }

    pub(crate) async fn advance(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        let (wanted, retention) = (check::version(version)?, check::retention(retention)?);
        let query = || {
            let query = with_key(&self.sql.advance, source);
            query.bind(wanted).bind(retention)
        };
        let locked = &self.locked_marks;
        for _ in 0..MAX_RETRIES {
            let rows = self.rows_in_turn(session, locked, source, query, End::Commit);
            let rows = match rows.await {
                Err(error) if error.kind() == ErrorKind::Contention && session.commits_each() => {
                    return self.stands(session, source, version, error).await;
                }
                rows => rows?,
            };
            let Some(row) = rows.first() else {
                tokio::task::yield_now().await;
                continue;
            };
            let held: Option<i64> = cell(row, 0)?;
            return Ok(match held.map(i64::cast_unsigned) {
                None => Advance::Advanced,
                Some(current) if current == version => Advance::Unchanged,
                Some(current) => Advance::Stale { current },
            });
        }
        Err(Error::new(
            ErrorKind::Contention,
            Effect::None,
            format!("the mark was raised {MAX_RETRIES} times while it was advanced; ask again"),
        ))
    }

    /// What the committed mark says, although an open transaction has locked it; else this error.
    async fn stands(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        version: u64,
        error: Error,
    ) -> Result<Advance> {
        match self.watermark(session, source).await? {
            Some(current) if current == version => Ok(Advance::Unchanged),
            Some(current) if current > version => Ok(Advance::Stale { current }),
            _ => Err(error),
        }
    }

    async fn watermark(&self, session: &mut Session<'_>, source: &Key) -> Result<Option<u64>> {
        let query = with_key(&self.sql.watermark, source);
        let rows = session.rows(query, Access::Read).await?;
        let mark = rows.first().map(|row| cell::<i64>(row, 0)).transpose()?;
        Ok(mark.map(i64::cast_unsigned))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl CheckpointStore for PostgresStore {
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
impl WatermarkStore for PostgresStore {
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        self.operations
            .advance(&mut self.session(), source, version, retention)
            .await
            .map_err(at("advance"))
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        self.operations
            .watermark(&mut self.session(), source)
            .await
            .map_err(at("watermark"))
    }

    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        let limit = check::batch(limit).map_err(at("delete_expired_watermarks"))?;
        let query = self
            .operations
            .sql
            .purge_watermarks
            .query()
            .bind(i64::from(limit));
        self.affected(query)
            .await
            .map_err(at("delete_expired_watermarks"))
    }
}
