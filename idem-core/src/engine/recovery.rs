//! Recovery points of [`Work`].

use serde::Serialize;

use super::Work;
use super::context::{Context, Doubt, in_time};
use super::held::is_worth_repeating;
use crate::backoff::Backoff;
use crate::{Checkpoint, CheckpointStore, Effect, Error, ErrorKind, Result};

impl Work {
    /// Stores how far the work got, and replaces the checkpoint before: a takeover begins with
    /// [`last_checkpoint`](Self::last_checkpoint). Without a key nothing is stored.
    ///
    /// The work between two checkpoints may run twice, so make it repeatable: for example under a
    /// [derived](Self::derive) key. A checkpoint outlives its worker, not the claim: work that ends
    /// with an error loses it with the release, except under
    /// [`ErrorPolicy::LetExpire`](crate::ErrorPolicy::LetExpire).
    ///
    /// # Errors
    ///
    /// [`ClaimLost`](ErrorKind::ClaimLost) when another attempt works on it now: stop.
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the value is too large, has no JSON form or
    /// one that does not carry it (see [`Checkpoint::json`]), or when the name is invalid.
    /// [`Misconfigured`](ErrorKind::Misconfigured) when the store keeps no checkpoints. When the
    /// store cannot be reached, the call is repeated for the policy's retry time-out.
    ///
    /// # Cancellation
    ///
    /// Either this checkpoint or the one before is stored, whole.
    pub async fn checkpoint<T: Serialize + Sync + ?Sized>(
        &self,
        name: &str,
        data: &T,
    ) -> Result<()> {
        let point = Checkpoint::json(name, data)?;
        let Some(lease) = self.lease() else {
            return Ok(());
        };
        let context = &lease.context;
        let mut backoff = Backoff::new(context.policy.retry_timeout());
        let mut doubt = Doubt::default();
        loop {
            let claim = lease.claim();
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

    /// Returns the last checkpoint of this work, whichever attempt stored it; `None` when there is
    /// none, and without a key.
    ///
    /// # Errors
    ///
    /// As for [`checkpoint`](Self::checkpoint).
    ///
    /// # Cancellation
    ///
    /// Without effect.
    pub async fn last_checkpoint(&self) -> Result<Option<Checkpoint>> {
        let Some(lease) = self.lease() else {
            return Ok(None);
        };
        let context = &lease.context;
        let mut backoff = Backoff::new(context.policy.retry_timeout());
        loop {
            let claim = lease.claim();
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
    context.store().checkpoints().ok_or_else(|| {
        Error::new(
            ErrorKind::Misconfigured,
            Effect::None,
            format!(
                "the store `{}` keeps no checkpoints",
                context.store().backend()
            ),
        )
    })
}
