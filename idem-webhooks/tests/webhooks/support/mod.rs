//! A store with faults, and deliveries.

pub(crate) mod clock;
pub(crate) mod delivery;
pub(crate) mod request;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use idem_core::{
    Advance, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure,
    IdempotencyStore, Key, Limits, MemoryStore, Record, Response, Result, WatermarkStore,
    async_trait,
};

/// A store in memory that can be unreachable, or refuse only results.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fragile {
    pub(crate) store: MemoryStore,
    pub(crate) is_down: Arc<AtomicBool>,
    pub(crate) seals_nothing: Arc<AtomicBool>,
    pub(crate) has_no_marks: bool,
    /// How many advances still fail.
    pub(crate) marks_fail: Arc<AtomicUsize>,
}

impl Fragile {
    pub(crate) fn set(switch: &AtomicBool, on: bool) {
        switch.store(on, Ordering::SeqCst);
    }

    fn up(&self) -> Result<()> {
        Self::unless(&self.is_down)
    }

    fn unless(switch: &AtomicBool) -> Result<()> {
        if switch.load(Ordering::SeqCst) {
            Err(Error::new(ErrorKind::Unavailable, Effect::None, "pulled"))
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl IdempotencyStore for Fragile {
    fn backend(&self) -> &'static str {
        "fragile"
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        if self.has_no_marks { None } else { Some(self) }
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.up()?;
        self.store.claim(request).await
    }

    async fn complete(&self, claim: &Claim, response: &Response, keep: Duration) -> Result<()> {
        self.up()?;
        Self::unless(&self.seals_nothing)?;
        self.store.complete(claim, response, keep).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, keep: Duration) -> Result<()> {
        self.up()?;
        self.store.fail(claim, failure, keep).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.up()?;
        self.store.release(claim).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.up()?;
        self.store.renew(claim, lease).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.up()?;
        self.store.get(key).await
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.store.delete_expired(limit).await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.store.fail_abandoned(limit).await
    }
}

#[async_trait]
impl WatermarkStore for Fragile {
    async fn advance(&self, source: &Key, version: u64, keep: Duration) -> Result<Advance> {
        let one_less = |left: usize| left.checked_sub(1);
        let (read, write) = (Ordering::SeqCst, Ordering::SeqCst);
        if self.marks_fail.fetch_update(read, write, one_less).is_ok() {
            return Err(Error::new(ErrorKind::Contention, Effect::Unknown, "lost"));
        }
        self.store.advance(source, version, keep).await
    }

    async fn watermark(&self, source: &Key) -> Result<Option<u64>> {
        self.store.watermark(source).await
    }

    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64> {
        self.store.delete_expired_watermarks(limit).await
    }
}
