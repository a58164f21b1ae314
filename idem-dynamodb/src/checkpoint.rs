//! Checkpoints: the state that the work stores under its claim, in the record's item.

use async_trait::async_trait;
use idem_core::{Bytes, Checkpoint, CheckpointStore, Claim, Result};

use crate::error::changed_too_often;
use crate::operations::{Changed, Operations, held};
use crate::session::{MAX_RETRIES, Session, pause};
use crate::statements;
use crate::store::{DynamoStore, at};

impl Operations {
    /// Returns the checkpoint in stored form.
    pub(crate) fn encoded_checkpoint(&self, checkpoint: &Checkpoint) -> Result<Bytes> {
        checkpoint.encode(&self.config.limits())
    }

    async fn checkpoint(
        &self,
        session: &Session,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let stored = self.encoded_checkpoint(checkpoint)?;
        for tries in 1..=MAX_RETRIES {
            let now = self.now(session).await?.micros;
            let update = statements::checkpoint(claim, &stored, now);
            match self.update(session, &update).await? {
                Changed::Done => return Ok(()),
                Changed::Refused(row) => held(row, claim, now)?,
            };
            pause(tries).await;
        }
        Err(changed_too_often(MAX_RETRIES))
    }

    async fn last_checkpoint(
        &self,
        session: &Session,
        claim: &Claim,
    ) -> Result<Option<Checkpoint>> {
        let row = self.read(session, claim.key()).await?;
        let now = self.now(session).await?.micros;
        let stored = held(row, claim, now)?.take_checkpoint()?;
        stored.as_ref().map(Checkpoint::decode).transpose()
    }
}

/// The checkpoint is an attribute of the item, set in one write whose condition checks the
/// ownership. It counts against the limit of a result, which later replaces it.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl CheckpointStore for DynamoStore {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let session = self.operations.session();
        let stored = self.operations.checkpoint(&session, claim, checkpoint);
        stored.await.map_err(at("checkpoint"))
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        let session = self.operations.session();
        let last = self.operations.last_checkpoint(&session, claim);
        last.await.map_err(at("last_checkpoint"))
    }
}
