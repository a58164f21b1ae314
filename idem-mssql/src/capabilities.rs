//! Checkpoints and watermarks.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{
    Advance, Bytes, Checkpoint, CheckpointStore, Claim, Effect, Error, ErrorKind, Key, Result,
    WatermarkStore,
};

use crate::error::is_lost_race;
use crate::operations::{MAX_RETRIES, Operations, Step, with_claim, with_key};
use crate::pool::Client;
use crate::row::Columns;
use crate::session::Session;
use crate::store::{MssqlStore, at};

impl Operations {
    async fn checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let stored = checkpoint.encode(&self.config.limits())?;
        let query = with_claim(&self.sql.checkpoint, claim).bind(&stored[..]);
        match self.step(session, claim, query).await? {
            Step::Done(_) => Ok(()),
            Step::Met(..) => Err(Error::claim_lost()),
        }
    }

    async fn last_checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Checkpoint>> {
        let query = with_claim(&self.sql.last_checkpoint, claim);
        let read = self.read(session, &self.locked, claim.key(), query);
        let rows = read.await?;
        let row = Columns(rows.first().ok_or_else(Error::claim_lost)?);
        let stored = row.optional_bytes(0)?.map(Bytes::copy_from_slice);
        stored.as_ref().map(Checkpoint::decode).transpose()
    }

    async fn advance(
        &self,
        session: &mut Session<'_>,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        let (wanted, retention) = (check::version(version)?, check::retention(retention)?);
        let values = |statement| with_key(statement, source).bind(wanted).bind(retention);
        for _ in 0..MAX_RETRIES {
            let asked = self.look_or_in_turn(
                session,
                &self.locked_marks,
                source,
                || values(&self.sql.look_at_mark),
                || values(&self.sql.advance),
            );
            let rows = match asked.await {
                Err(error) if is_lost_race(&error) && session.repeats() => continue,
                rows => rows?,
            };
            let Some(row) = rows.first().map(Columns) else {
                tokio::task::yield_now().await;
                continue;
            };
            if row.number(0)? == 1 {
                return Ok(Advance::Advanced);
            }
            return Ok(match row.number(1)?.cast_unsigned() {
                current if current == version => Advance::Unchanged,
                current => Advance::Stale { current },
            });
        }
        Err(Error::new(
            ErrorKind::Contention,
            Effect::None,
            format!("the mark was raised {MAX_RETRIES} times while it was advanced; ask again"),
        ))
    }

    async fn watermark(&self, session: &mut Session<'_>, source: &Key) -> Result<Option<u64>> {
        let query = with_key(&self.sql.watermark, source);
        let read = self.read(session, &self.locked_marks, source, query);
        let rows = read.await?;
        let mark = rows.first().map(|row| Columns(row).number(0)).transpose()?;
        Ok(mark.map(i64::cast_unsigned))
    }
}

impl MssqlStore {
    /// [`checkpoint`](CheckpointStore::checkpoint) in the caller's transaction: the recovery point and the rows that it
    /// stands for commit together. When it answers `ClaimLost`, roll back: somebody else does the work.
    ///
    /// # Errors
    ///
    /// As for `checkpoint`.
    ///
    /// # Cancellation
    ///
    /// The transaction and its connection are in an unknown state: drop both.
    pub async fn checkpoint_in(
        &self,
        client: &mut Client,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let at = at("checkpoint_in");
        let mut session = self.operations.in_transaction(client).await.map_err(&at)?;
        let stored = self.operations.checkpoint(&mut session, claim, checkpoint);
        stored.await.map_err(at)
    }

    /// [`advance`](WatermarkStore::advance) in the caller's transaction: the mark and the rows that were written for the
    /// event commit together, and a rollback leaves the mark where it was. Others that advance the same source
    /// are told `Contention` until the transaction ends, unless the mark that was committed before answers them.
    ///
    /// # Errors
    ///
    /// As for `advance`. `Contention` also when another transaction holds the source, or another one marked it first.
    ///
    /// # Cancellation
    ///
    /// The transaction and its connection are in an unknown state: drop both.
    pub async fn advance_in(
        &self,
        client: &mut Client,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        let at = at("advance_in");
        let mut session = self.operations.in_transaction(client).await.map_err(&at)?;
        let advanced = self
            .operations
            .advance(&mut session, source, version, retention);
        advanced.await.map_err(at)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl CheckpointStore for MssqlStore {
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
impl WatermarkStore for MssqlStore {
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
        self.operations
            .delete_expired_watermarks(&mut self.session(), limit)
            .await
            .map_err(at("delete_expired_watermarks"))
    }
}
