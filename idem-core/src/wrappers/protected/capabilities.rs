//! Checkpoints, lists and forced steps.

use async_trait::async_trait;

use super::Protected;
use super::parts::is_exempt;
use crate::admin::{
    Cursor, Forced, ForcedAction, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
};
use crate::{
    Checkpoint, CheckpointStore, Claim, Effect, Error, ErrorKind, IdempotencyStore, Key,
    RecordAdmin, Result,
};

/// The error of a store without the capability, which nobody gets: then there is no wrapper for it.
fn missing() -> Error {
    let message = "the wrapped store does not have this capability";
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore> CheckpointStore for Protected<S> {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let store = self.store.checkpoints().ok_or_else(missing)?;
        if is_exempt(claim.key()) {
            return store.checkpoint(claim, checkpoint).await;
        }
        let limits = self.own_limits();
        let sealed = self.seals.checkpoint(claim.key(), checkpoint, &limits);
        let sealed = sealed.map_err(|error| error.at(self.store.backend(), "checkpoint"))?;
        store.checkpoint(claim, &sealed).await
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        let store = self.store.checkpoints().ok_or_else(missing)?;
        let stored = store.last_checkpoint(claim).await?;
        if is_exempt(claim.key()) {
            return Ok(stored);
        }
        let opened = stored.map(|stored| self.seals.open_checkpoint(claim.key(), stored));
        let opened = opened.transpose();
        opened.map_err(|error| error.at(self.store.backend(), "last_checkpoint"))
    }
}

impl<S: IdempotencyStore> Protected<S> {
    fn shown(&self, mut summary: RecordSummary) -> RecordSummary {
        let metadata = std::mem::take(&mut summary.metadata);
        summary.metadata = self.shown_metadata(&summary.key, metadata);
        summary
    }

    /// Returns the step as the wrapped store gets it.
    fn protect_step(&self, step: &ForcedStep) -> Result<Option<ForcedStep>> {
        let ForcedAction::Fail { failure, retention } = step.action() else {
            return Ok(None);
        };
        // The record keeps its token, so that the failure can be bound to it.
        let action = ForcedAction::Fail {
            failure: self.seal_failure(step.key(), step.token(), failure)?,
            retention: *retention,
        };
        let (key, token) = (step.key().clone(), step.token());
        ForcedStep::new(key, token, action, step.who(), step.reason()).map(Some)
    }
}

/// Codes of failures and names of checkpoints are in clear, so that lists can filter by them. Sizes
/// are those of the encrypted forms. A record whose metadata cannot be decrypted keeps its state;
/// one entry of its metadata says why.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore> RecordAdmin for Protected<S> {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let store = self.store.admin().ok_or_else(missing)?;
        let mut page = store.list(filter, after, limit).await?;
        let records = std::mem::take(&mut page.records).into_iter();
        page.records = records.map(|record| self.shown(record)).collect();
        Ok(page)
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        let store = self.store.admin().ok_or_else(missing)?;
        let summary = store.summary(key).await?;
        Ok(summary.map(|summary| self.shown(summary)))
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        let store = self.store.admin().ok_or_else(missing)?;
        let sealed = self.protect_step(step);
        let sealed = sealed.map_err(|error| error.at(self.store.backend(), "force"))?;
        let forced = store.force(sealed.as_ref().unwrap_or(step)).await?;
        Ok(match forced {
            Forced::Done { before } => Forced::Done {
                before: self.shown(before),
            },
            Forced::Refused { current } => Forced::Refused {
                current: current.map(|current| self.shown(current)),
            },
        })
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        let store = self.store.admin().ok_or_else(missing)?;
        let sealed = self.protect_rewrite(rewrite).await;
        let sealed = sealed.map_err(|error| error.at(self.store.backend(), "rewrite"))?;
        store.rewrite(&sealed).await
    }
}
