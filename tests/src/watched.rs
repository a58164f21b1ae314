//! [`Watched`]: a store whose answers are searched for secrets.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::admin::{
    Cursor, Forced, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
};
use idem_core::{
    Advance, BatchStore, Checkpoint, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Error,
    ErrorKind, Failure, Finish, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response,
    Result, WatermarkStore,
};

use crate::secrets::Watch;

/// A store of the harness, as cases get it: the watch searches each answer for the secret.
pub(crate) struct Watched<S: ?Sized> {
    inner: Arc<S>,
    watch: Watch,
}

impl<S: fmt::Debug + Send + Sync + ?Sized> Watched<S> {
    pub(crate) fn new(inner: Arc<S>, watch: &Watch) -> Self {
        watch.debug("a store", &inner);
        Self {
            inner,
            watch: watch.clone(),
        }
    }

    /// Awaits an answer, and searches it.
    async fn during<T: fmt::Debug>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let result = self.watch.last_call.during(operation, call).await;
        self.returned(operation, result)
    }

    fn returned<T: fmt::Debug>(&self, operation: &str, result: Result<T>) -> Result<T> {
        match &result {
            Ok(answer) => {
                let what = format_args!("the answer of `{operation}`");
                self.watch.debug(what, answer);
            }
            Err(error) => self.watch.error(format_args!("`{operation}`"), error),
        }
        result
    }
}

/// Writes the store's own `Debug`.
impl<S: fmt::Debug + ?Sized> fmt::Debug for Watched<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore + ?Sized> IdempotencyStore for Watched<S> {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        self.inner.checkpoints().map(|_| self as _)
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        self.inner.watermarks().map(|_| self as _)
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        self.inner.admin().map(|_| self as _)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.during("claim", self.inner.claim(request)).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let complete = self.inner.complete(claim, response, retention);
        self.during("complete", complete).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.during("fail", self.inner.fail(claim, failure, retention))
            .await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.during("release", self.inner.release(claim)).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.during("renew", self.inner.renew(claim, lease)).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.during("get", self.inner.get(key)).await
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.during("delete_expired", self.inner.delete_expired(limit))
            .await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.during("fail_abandoned", self.inner.fail_abandoned(limit))
            .await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: BatchStore + ?Sized> BatchStore for Watched<S> {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let answers = self.inner.claim_many(requests);
        let answers = self
            .watch
            .last_call
            .during("claim_many", answers)
            .await
            .into_iter();
        let returned = answers.map(|answer| self.returned("claim_many", answer));
        returned.collect()
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let answers = self.inner.finish_many(items);
        let answers = self
            .watch
            .last_call
            .during("finish_many", answers)
            .await
            .into_iter();
        let returned = answers.map(|answer| self.returned("finish_many", answer));
        returned.collect()
    }
}

/// The error for a store without the capability.
fn nothing() -> Error {
    let message = "the store behind keeps none";
    Error::new(ErrorKind::Misconfigured, idem_core::Effect::None, message)
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore + ?Sized> CheckpointStore for Watched<S> {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let inner = self.inner.checkpoints().ok_or_else(nothing)?;
        self.during("checkpoint", inner.checkpoint(claim, checkpoint))
            .await
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        let inner = self.inner.checkpoints().ok_or_else(nothing)?;
        self.during("last_checkpoint", inner.last_checkpoint(claim))
            .await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore + ?Sized> WatermarkStore for Watched<S> {
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        let inner = self.inner.watermarks().ok_or_else(nothing)?;
        self.during("advance", inner.advance(source, version, retention))
            .await
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        let inner = self.inner.watermarks().ok_or_else(nothing)?;
        self.during("watermark", inner.watermark(source)).await
    }

    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        let inner = self.inner.watermarks().ok_or_else(nothing)?;
        let delete = inner.delete_expired_watermarks(limit);
        self.during("delete_expired_watermarks", delete).await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore + ?Sized> RecordAdmin for Watched<S> {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let inner = self.inner.admin().ok_or_else(nothing)?;
        self.during("list", inner.list(filter, after, limit)).await
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        let inner = self.inner.admin().ok_or_else(nothing)?;
        self.during("summary", inner.summary(key)).await
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        let inner = self.inner.admin().ok_or_else(nothing)?;
        self.during("force", inner.force(step)).await
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        let inner = self.inner.admin().ok_or_else(nothing)?;
        self.during("rewrite", inner.rewrite(rewrite)).await
    }
}
