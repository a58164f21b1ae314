//! Checkpoints: the state that the work stores under its claim, in the record's document.

use async_trait::async_trait;
use idem_core::backend::StoredRecord;
use idem_core::{Bytes, Checkpoint, CheckpointStore, Claim, Error, Result};

use crate::operations::{Operations, changed_too_often};
use crate::session::{MAX_RETRIES, Session};
use crate::statements;
use crate::store::{MongoStore, at};

impl Operations {
    /// Returns the checkpoint in stored form.
    pub(crate) fn encoded_checkpoint(&self, checkpoint: &Checkpoint) -> Result<Bytes> {
        checkpoint.encode(&self.config.limits())
    }

    pub(crate) async fn checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        stored: &[u8],
    ) -> Result<()> {
        self.ready(session).await?;
        for _ in 0..MAX_RETRIES {
            let update = statements::checkpoint(stored);
            if self.write_held(session, claim, update).await? {
                return Ok(());
            }
            if let Some(lost) = self.not_held(session, claim).await? {
                return Err(lost);
            }
        }
        Err(changed_too_often())
    }

    async fn last_checkpoint(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
    ) -> Result<Option<Checkpoint>> {
        self.ready(session).await?;
        match self.owned(session, claim).await? {
            Some(mut row) if row.state()? == StoredRecord::IN_FLIGHT && row.is_live()? => {
                let stored = row.take_checkpoint()?;
                stored.as_ref().map(Checkpoint::decode).transpose()
            }
            _ => Err(Error::claim_lost()),
        }
    }
}

/// The checkpoint is a field of the document, set in one update whose filter checks the ownership.
/// It counts against the limit of a result, which later replaces it.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl CheckpointStore for MongoStore {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let stored = self
            .operations
            .encoded_checkpoint(checkpoint)
            .map_err(at("checkpoint"))?;
        self.operations
            .checkpoint(&mut self.session(), claim, &stored)
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
