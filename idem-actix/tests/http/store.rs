//! A store that fails on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, IdempotencyStore, Key,
    Limits, MemoryStore, Record, Response, Result, async_trait,
};

/// A memory store that fails in this way while `fails` is set.
#[derive(Debug, Clone)]
pub(crate) struct FailingStore {
    inner: Arc<MemoryStore>,
    fails: Arc<AtomicBool>,
    kind: ErrorKind,
}

impl FailingStore {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self {
            inner: Arc::new(MemoryStore::new()),
            fails: Arc::default(),
            kind,
        }
    }

    pub(crate) fn set_fails(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    fn check(&self) -> Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(Error::new(self.kind, Effect::None, "made to fail").at("failing", "any"));
        }
        Ok(())
    }
}

#[async_trait]
impl IdempotencyStore for FailingStore {
    fn backend(&self) -> &'static str {
        "failing"
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.check()?;
        self.inner.claim(request).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.check()?;
        self.inner.complete(claim, response, retention).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.check()?;
        self.inner.fail(claim, failure, retention).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.check()?;
        self.inner.release(claim).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.check()?;
        self.inner.renew(claim, lease).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.check()?;
        self.inner.get(key).await
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.check()?;
        self.inner.delete_expired(limit).await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.check()?;
        self.inner.fail_abandoned(limit).await
    }
}
