//! Checkpoints, stored in the record itself.

use async_trait::async_trait;
use idem_core::{Bytes, Checkpoint, CheckpointStore, Claim, Error, Result};
use redis::Value;

use crate::error::Access;
use crate::operations::{Operations, nonsense, nothing, with_owner};
use crate::script::Call;
use crate::store::{RedisStore, at};

impl Operations {
    fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<Call<'_>> {
        let stored = checkpoint.encode(&self.config.limits())?;
        let call = self.scripts.checkpoint.call(&self.record_key(claim.key()));
        Ok(with_owner(call, claim)
            .arg(&stored[..])
            .arg(self.config.grace_millis()))
    }

    fn last_checkpoint(&self, claim: &Claim) -> Call<'_> {
        let script = &self.scripts.last_checkpoint;
        with_owner(script.call(&self.record_key(claim.key())), claim)
    }

    /// Decodes the answer to a read of a checkpoint.
    fn found_checkpoint(answer: Value) -> Result<Option<Checkpoint>> {
        match answer {
            Value::Nil => Err(Error::claim_lost()),
            Value::BulkString(stored) if stored.is_empty() => Ok(None),
            Value::BulkString(stored) => Checkpoint::decode(&Bytes::from(stored)).map(Some),
            _ => Err(nonsense()),
        }
    }
}

/// The checkpoint has the position of the later result: a record has the one or the other. It
/// counts against the same limit, and replicas acknowledge it like every other write.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl CheckpointStore for RedisStore {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let call = self.operations.checkpoint(claim, checkpoint);
        self.step(call).await.map_err(at("checkpoint"))
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        let call = self.operations.last_checkpoint(claim);
        let answer = self.link.run(&call, Access::Read, nothing).await;
        answer
            .and_then(Operations::found_checkpoint)
            .map_err(at("last_checkpoint"))
    }
}
