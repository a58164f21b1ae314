//! Checkpoints and watermarks.

use std::time::Duration;

use async_trait::async_trait;

use super::{BACKEND, MemoryStore, later};
use crate::backend::check;
use crate::{Advance, Checkpoint, CheckpointStore, Claim, Error, Key, Result, WatermarkStore};

impl MemoryStore {
    fn advance_now(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        check::version(version)?;
        let retention = check::retention(retention)?;
        Ok(self.on_shard(source, |shard, _, now| {
            shard
                .marks
                .advance(source, version, later(now, retention), now)
        }))
    }
}

fn at(operation: &'static str) -> impl Fn(Error) -> Error {
    move |error| error.at(BACKEND, operation)
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl CheckpointStore for MemoryStore {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        checkpoint
            .encode(&self.shared.limits)
            .and_then(|_| {
                self.on_shard(claim.key(), |shard, key, now| {
                    shard.store_checkpoint(key, claim, checkpoint, now)
                })
            })
            .map_err(at("checkpoint"))
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        self.on_shard(claim.key(), |shard, key, now| {
            let stored = shard.checkpoint(key, claim, now)?;
            Ok(stored.as_deref().cloned())
        })
        .map_err(at("last_checkpoint"))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl WatermarkStore for MemoryStore {
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        self.advance_now(source, version, retention)
            .map_err(at("advance"))
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        Ok(self.on_shard(source, |shard, _, now| shard.marks.get(source, now)))
    }

    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        self.in_batches(limit, |shard, now, work| shard.marks.expire_some(now, work))
            .map_err(at("delete_expired_watermarks"))
    }
}
