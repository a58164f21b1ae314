//! Recovery points of [`Work`].

use serde::Serialize;

use super::Work;
use super::context::{Context, Doubt, in_time};
use super::held::is_worth_repeating;
use crate::backoff::Backoff;
use crate::{Checkpoint, CheckpointStore, Effect, Error, ErrorKind, Result};

impl Work {
    /// Stores how far the work got, in place of the checkpoint before: whoever takes this work over
    /// begins with [`last_checkpoint`](Self::last_checkpoint). Without a key nothing is stored.
    ///
    /// Do what is between two checkpoints so that it may be done twice: under a
    /// [derived](Self::derive) key, say. A checkpoint outlives its worker, not the claim: work that
    /// ends with an error loses it with the release, unless the policy is
    /// [`ErrorPolicy::LetExpire`](crate::ErrorPolicy::LetExpire).
    ///
    /// # Errors
    ///
    /// [`ClaimLost`](ErrorKind::ClaimLost) when somebody else works on it now: stop.
    /// [`InvalidInput`](ErrorKind::InvalidInput) when it is too large, has no JSON form or one that
    /// does not carry it (see [`Checkpoint::json`]), or its name is none.
    /// [`Misconfigured`](ErrorKind::Misconfigured) when the store keeps no checkpoints. When the
    /// store cannot be reached it is asked again for as long as the policy's patience.
    ///
    /// # Cancellation
    ///
    /// The checkpoint, or the one before, is stored, whole.
    pub async fn checkpoint<T: Serialize + Sync + ?Sized>(
        &self,
        name: &str,
        data: &T,
    ) -> Result<()> {
        let point = Checkpoint::json(name, data)?;
        let Some(context) = self.context() else {
            return Ok(());
        };
        let mut backoff = Backoff::new(context.policy.patience());
        let mut doubt = Doubt::default();
        loop {
            let Some(claim) = self.claim() else {
                return Ok(());
            };
            let call = keeper(context)?.checkpoint(&claim, &point);
            let error = match in_time(context.policy.try_limit(), "checkpoint", call).await {
                Ok(()) => return Ok(()),
                Err(error) => doubt.about_all(error),
            };
            if !is_worth_repeating(&error) || !backoff.pause().await {
                return Err(error);
            }
            context.observers.retried(self.key(), "checkpoint", &error);
        }
    }

    /// Returns the last checkpoint of this work, by whoever stored it; `None` when there is none,
    /// and without a key.
    ///
    /// # Errors
    ///
    /// As for [`checkpoint`](Self::checkpoint).
    ///
    /// # Cancellation
    ///
    /// Without effect.
    pub async fn last_checkpoint(&self) -> Result<Option<Checkpoint>> {
        let Some(context) = self.context() else {
            return Ok(None);
        };
        let mut backoff = Backoff::new(context.policy.patience());
        loop {
            let Some(claim) = self.claim() else {
                return Ok(None);
            };
            let call = keeper(context)?.last_checkpoint(&claim);
            let error = match in_time(context.policy.try_limit(), "last_checkpoint", call).await {
                Ok(point) => return Ok(point),
                Err(error) => error,
            };
            if !is_worth_repeating(&error) || !backoff.pause().await {
                return Err(error);
            }
            context
                .observers
                .retried(self.key(), "last_checkpoint", &error);
        }
    }
}

fn keeper(context: &Context) -> Result<&dyn CheckpointStore> {
    context.store.checkpoints().ok_or_else(|| {
        Error::new(
            ErrorKind::Misconfigured,
            Effect::None,
            format!(
                "the store `{}` keeps no checkpoints",
                context.store.backend()
            ),
        )
    })
}
