//! [`LosesAnswers`]: performs operations and loses their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::admin::{
    Cursor, Forced, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
};
use idem_core::{
    Advance, Checkpoint, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error,
    ErrorKind, Failure, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result,
    WatermarkStore,
};

/// A store in front of another that loses answers on demand: it performs the operation, and
/// replaces its answer, good or bad, by `Unavailable` with an unknown effect.
///
/// Applications test with it that a lost answer costs no second effect:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use idem_conformance::faults::LosesAnswers;
/// use idem_core::{Idempotency, Key, MemoryStore, Work};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(LosesAnswers::new(Arc::new(MemoryStore::new())));
/// let idempotency = Idempotency::new(Arc::clone(&store));
/// let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
/// let charges = AtomicU32::new(0);
/// let charge = async |_: Work| {
///     charges.fetch_add(1, Ordering::SeqCst);
///     store.lose_next(1); // the answer to the completion
///     Ok::<_, std::io::Error>("receipt 1".to_owned())
/// };
///
/// store.lose_next(2); // the answers to the claim, and to its first repetition
/// for _ in 0..2 {
///     assert_eq!(idempotency.run(&key, &1250, charge).await?.into_inner(), "receipt 1");
/// }
/// assert_eq!(charges.load(Ordering::SeqCst), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LosesAnswers {
    inner: Arc<dyn IdempotencyStore>,
    to_lose: AtomicU32,
}

impl LosesAnswers {
    /// Wraps this store; nothing is lost yet.
    #[must_use]
    pub fn new(inner: Arc<dyn IdempotencyStore>) -> Self {
        Self {
            inner,
            to_lose: AtomicU32::new(0),
        }
    }

    /// Loses the answers of the next `answers` operations.
    pub fn lose_next(&self, answers: u32) {
        self.to_lose.store(answers, Ordering::SeqCst);
    }

    fn deliver<T>(&self, answer: Result<T>) -> Result<T> {
        let less = |left: u32| left.checked_sub(1);
        let lost = self
            .to_lose
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        match lost {
            Err(_) => answer,
            Ok(_) => Err(Error::new(
                ErrorKind::Unavailable,
                Effect::Unknown,
                "the answer was lost on purpose",
            )
            .at(self.inner.backend(), "")),
        }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl IdempotencyStore for LosesAnswers {
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
        self.deliver(self.inner.claim(request).await)
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.deliver(self.inner.complete(claim, response, retention).await)
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.deliver(self.inner.fail(claim, failure, retention).await)
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.deliver(self.inner.release(claim).await)
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.deliver(self.inner.renew(claim, lease).await)
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.deliver(self.inner.get(key).await)
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.deliver(self.inner.delete_expired(limit).await)
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.deliver(self.inner.fail_abandoned(limit).await)
    }
}

/// The error for a store without the capability.
fn nothing() -> Error {
    let message = "the store behind keeps none";
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl CheckpointStore for LosesAnswers {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let inner = self.inner.checkpoints().ok_or_else(nothing)?;
        self.deliver(inner.checkpoint(claim, checkpoint).await)
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        let inner = self.inner.checkpoints().ok_or_else(nothing)?;
        self.deliver(inner.last_checkpoint(claim).await)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl WatermarkStore for LosesAnswers {
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        let inner = self.inner.watermarks().ok_or_else(nothing)?;
        self.deliver(inner.advance(source, version, retention).await)
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        let inner = self.inner.watermarks().ok_or_else(nothing)?;
        self.deliver(inner.watermark(source).await)
    }

    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        let inner = self.inner.watermarks().ok_or_else(nothing)?;
        self.deliver(inner.delete_expired_watermarks(limit).await)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl RecordAdmin for LosesAnswers {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let inner = self.inner.admin().ok_or_else(nothing)?;
        self.deliver(inner.list(filter, after, limit).await)
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        let inner = self.inner.admin().ok_or_else(nothing)?;
        self.deliver(inner.summary(key).await)
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        let inner = self.inner.admin().ok_or_else(nothing)?;
        self.deliver(inner.force(step).await)
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        let inner = self.inner.admin().ok_or_else(nothing)?;
        self.deliver(inner.rewrite(rewrite).await)
    }
}
