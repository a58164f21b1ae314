//! A memory store that waits for permits, records its calls, and fails on request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::backend::LockedKeys;
use idem_core::{
    BatchStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Finish,
    IdempotencyStore, Key, Limits, MemoryStore, Record, Response, Result, async_trait,
};
use tokio::sync::Semaphore;

/// Each call takes effect when it has a permit, never at its first poll. The store records the keys
/// of each call, in order, when it arrives.
#[derive(Debug, Clone)]
pub(crate) struct Gated {
    store: MemoryStore,
    gate: Arc<Semaphore>,
    calls: Arc<Mutex<Vec<Vec<String>>>>,
    poison: Arc<Mutex<Option<String>>>,
    locked: Arc<Mutex<Option<String>>>,
    is_short: Arc<AtomicBool>,
    panics: Arc<AtomicBool>,
}

impl Gated {
    pub(crate) fn closed() -> Self {
        Self {
            store: MemoryStore::new(),
            gate: Arc::new(Semaphore::new(0)),
            calls: Arc::default(),
            poison: Arc::default(),
            locked: Arc::default(),
            is_short: Arc::default(),
            panics: Arc::default(),
        }
    }

    /// Lets this many calls through.
    pub(crate) fn let_through(&self, calls: usize) {
        self.gate.add_permits(calls);
    }

    pub(crate) fn open(&self) {
        self.let_through(100_000);
    }

    /// Makes every call with this key fail as a whole; a batch may have had an effect, a call for
    /// one item has none.
    pub(crate) fn poison(&self, id: &str) {
        *self.poison.lock().unwrap() = Some(id.to_owned());
    }

    /// Answers claims of this key with `Contention`, and all others as before.
    pub(crate) fn lock(&self, id: &str) {
        *self.locked.lock().unwrap() = Some(id.to_owned());
    }

    fn is_locked(&self, key: &Key) -> bool {
        self.locked.lock().unwrap().as_deref() == Some(key.id())
    }

    /// Answers batches with one answer too few.
    pub(crate) fn answer_short(&self) {
        self.is_short.store(true, Ordering::SeqCst);
    }

    /// Makes the next batch panic.
    pub(crate) fn panic_once(&self) {
        self.panics.store(true, Ordering::SeqCst);
    }

    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) async fn until_calls(&self, count: usize) {
        while self.calls.lock().unwrap().len() < count {
            tokio::task::yield_now().await;
        }
    }

    async fn enter<'k>(&self, keys: impl Iterator<Item = &'k Key>) -> Result<()> {
        let ids: Vec<_> = keys.map(|key| key.id().to_owned()).collect();
        let poison = self.poison.lock().unwrap().clone();
        let is_poisoned = poison.is_some_and(|poison| ids.contains(&poison));
        let effect = if ids.len() > 1 {
            Effect::Unknown
        } else {
            Effect::None
        };
        self.calls.lock().unwrap().push(ids);
        self.gate.acquire().await.unwrap().forget();
        tokio::task::yield_now().await;
        if is_poisoned {
            return Err(Error::new(ErrorKind::Unavailable, effect, "poisoned"));
        }
        Ok(())
    }
}

#[async_trait]
impl IdempotencyStore for Gated {
    fn backend(&self) -> &'static str {
        "gated"
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.enter([request.key()].into_iter()).await?;
        if self.is_locked(request.key()) {
            return Err(LockedKeys::error());
        }
        self.store.claim(request).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.enter([claim.key()].into_iter()).await?;
        self.store.complete(claim, response, retention).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.enter([claim.key()].into_iter()).await?;
        self.store.fail(claim, failure, retention).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.enter([claim.key()].into_iter()).await?;
        self.store.release(claim).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.store.renew(claim, lease).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
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
impl BatchStore for Gated {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let entered = self.enter(requests.iter().map(ClaimRequest::key)).await;
        assert!(!self.panics.swap(false, Ordering::SeqCst), "as requested");
        if let Err(error) = entered {
            let each = error.for_each_item();
            return requests.iter().map(|_| Err(each())).collect();
        }
        let mut answers = Vec::new();
        for request in requests {
            answers.push(match self.is_locked(request.key()) {
                true => Err(LockedKeys::error()),
                false => self.store.claim(request).await,
            });
        }
        if self.is_short.load(Ordering::SeqCst) {
            answers.pop();
        }
        answers
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let keys = items.iter().map(|item| item.claim().key());
        if let Err(error) = self.enter(keys).await {
            let each = error.for_each_item();
            return items.iter().map(|_| Err(each())).collect();
        }
        self.store.finish_many(items).await
    }
}
