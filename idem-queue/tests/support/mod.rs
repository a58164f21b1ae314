//! A store with faults.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, IdempotencyStore, Key,
    Limits, MemoryStore, Record, Response, Result, async_trait,
};

/// A store in memory that can be unreachable, for all calls or for one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fragile {
    pub(crate) store: MemoryStore,
    pub(crate) is_down: Arc<AtomicBool>,
    /// The kind of error with which claims fail.
    pub(crate) refused: Arc<Mutex<Option<ErrorKind>>>,
    pub(crate) seals_nothing: Arc<AtomicBool>,
    pub(crate) fails_nothing: Arc<AtomicBool>,
    pub(crate) renews_nothing: Arc<AtomicBool>,
}

impl Fragile {
    pub(crate) fn set(switch: &AtomicBool, on: bool) {
        switch.store(on, Ordering::SeqCst);
    }

    fn unless(&self, switch: &AtomicBool) -> Result<()> {
        if self.is_down.load(Ordering::SeqCst) || switch.load(Ordering::SeqCst) {
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

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.unless(&self.is_down)?;
        if let Some(kind) = *self.refused.lock().unwrap() {
            return Err(Error::new(kind, Effect::None, "refused"));
        }
        self.store.claim(request).await
    }

    async fn complete(&self, claim: &Claim, response: &Response, keep: Duration) -> Result<()> {
        self.unless(&self.seals_nothing)?;
        self.store.complete(claim, response, keep).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, keep: Duration) -> Result<()> {
        self.unless(&self.fails_nothing)?;
        self.store.fail(claim, failure, keep).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.unless(&self.is_down)?;
        self.store.release(claim).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.unless(&self.renews_nothing)?;
        self.store.renew(claim, lease).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.unless(&self.is_down)?;
        self.store.get(key).await
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.store.delete_expired(limit).await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.store.fail_abandoned(limit).await
    }
}
