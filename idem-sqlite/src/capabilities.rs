//! Checkpoints and watermarks.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{
    Advance, Bytes, Checkpoint, CheckpointStore, Claim, Effect, Error, ErrorKind, Key, Result,
    WatermarkStore,
};
use sqlx::Row;

use crate::error::decode;
use crate::operations::{MAX_RETRIES, Operations, with_claim, with_key};
use crate::session::Session;
use crate::store::{SqliteStore, at};

impl Operations {
    pub(crate) async fn checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let stored = checkpoint.encode(&self.config.limits())?;
        let query = with_claim(&self.sql.checkpoint, claim).bind(&stored[..]);
        let rows = session.write(query).await?;
        rows.first().map(drop).ok_or_else(Error::claim_lost)
    }

    async fn last_checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Checkpoint>> {
        let query = with_claim(&self.sql.last_checkpoint, claim);
        let row = session.read(query).await?.ok_or_else(Error::claim_lost)?;
        let stored: Option<Vec<u8>> = row.try_get_unchecked(0).map_err(decode)?;
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
        for _ in 0..MAX_RETRIES {
            let read = with_key(&self.sql.raised, source).bind(wanted);
            if let Some(row) = session.read(read).await? {
                let current: i64 = row.try_get_unchecked(0).map_err(decode)?;
                return Ok(match current.cast_unsigned() {
                    current if current == version => Advance::Unchanged,
                    current => Advance::Stale { current },
                });
            }
            let raise = with_key(&self.sql.raise, source)
                .bind(wanted)
                .bind(retention);
            if !session.write(raise).await?.is_empty() {
                return Ok(Advance::Advanced);
            }
        }
        Err(Error::new(
            ErrorKind::Contention,
            Effect::None,
            format!("the mark was raised {MAX_RETRIES} times while it was advanced; ask again"),
        ))
    }

    async fn watermark(&self, session: &mut Session<'_>, source: &Key) -> Result<Option<u64>> {
        let query = with_key(&self.sql.watermark, source);
        let row = session.read(query).await?;
        let version = |row: sqlx::sqlite::SqliteRow| row.try_get_unchecked::<i64, _>(0);
        let mark = row.map(version).transpose().map_err(decode)?;
        Ok(mark.map(i64::cast_unsigned))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl CheckpointStore for SqliteStore {
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
impl WatermarkStore for SqliteStore {
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
        let query = sqlx::query(self.operations.sql.purge_watermarks.text()).bind(i64::from(limit));
        self.affected(query)
            .await
            .map_err(at("delete_expired_watermarks"))
    }
}
