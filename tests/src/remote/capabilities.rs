//! Checkpoints, watermarks, lists and forced steps of the client.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::admin::{
    Cursor, Forced, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
};
use idem_core::backend::check;
use idem_core::{
    Advance, Checkpoint, CheckpointStore, Claim, Error, IdempotencyStore, Key, RecordAdmin, Result,
    WatermarkStore,
};

use super::RemoteStore;
use super::client::{BACKEND, nonsense};
use super::protocol::{Answer, Operation, Rewritten, Step};

fn at(operation: &'static str) -> impl Fn(Error) -> Error {
    move |error| error.at(BACKEND, operation)
}

#[async_trait]
impl CheckpointStore for RemoteStore {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let stored = checkpoint
            .encode(&self.limits())
            .map_err(at("checkpoint"))?;
        let operation = Operation::Checkpoint(claim.clone(), stored);
        self.ask(operation).await.map(drop)
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        let operation = Operation::LastCheckpoint(claim.clone());
        match self.ask(operation).await? {
            Answer::Point(stored) => stored.as_ref().map(Checkpoint::decode).transpose(),
            _ => Err(nonsense()),
        }
    }
}

#[async_trait]
impl WatermarkStore for RemoteStore {
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        check::version(version)
            .and_then(|_| check::retention(retention))
            .map_err(at("advance"))?;
        let operation = Operation::Advance(source.clone(), version, retention);
        match self.ask(operation).await? {
            Answer::Told(returned) => Ok(returned),
            _ => Err(nonsense()),
        }
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        match self.ask(Operation::Watermark(source.clone())).await? {
            Answer::Mark(mark) => Ok(mark),
            _ => Err(nonsense()),
        }
    }

    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        match self.ask(Operation::PurgeWatermarks(limit)).await? {
            Answer::Count(count) => Ok(count),
            _ => Err(nonsense()),
        }
    }
}

#[async_trait]
impl RecordAdmin for RemoteStore {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        check::batch(limit).map_err(at("list"))?;
        let operation = Operation::List(filter.clone(), after.cloned(), limit);
        match self.ask(operation).await? {
            Answer::Page(page) => Ok(page),
            _ => Err(nonsense()),
        }
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        match self.ask(Operation::Summary(key.clone())).await? {
            Answer::Summary(summary) => Ok(summary),
            _ => Err(nonsense()),
        }
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        match self.ask(Operation::Force(Step::of(step))).await? {
            Answer::Forced(forced) => Ok(forced),
            _ => Err(nonsense()),
        }
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        check::rewrite(rewrite, &self.limits()).map_err(at("rewrite"))?;
        match self.ask(Operation::Rewrite(Rewritten::of(rewrite))).await? {
            Answer::Rewritten(rewritten) => Ok(rewritten),
            _ => Err(nonsense()),
        }
    }
}
