//! A store over a database that counts and a cache that misbehaves on request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use idem_core::admin::{
    Cursor, Forced, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
};
use idem_core::{
    AttemptId, BatchStore, Bytes, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    Failure, Fingerprint, Finish, IdempotencyStore, Key, Limits, MemoryStore, Record, RecordAdmin,
    Response, Result, async_trait,
};
use idem_hybrid::{Cache, Config, HybridStore, LocalCache, Lookup};

use super::gate::Gate;

pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// How a cache misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Every call is an error.
    Failing,
    /// No call is ever answered.
    Hanging,
    /// Every call takes half a second.
    Slow,
    /// Every hit is random bytes.
    Garbage,
    /// Every hit is another key's, once there was another.
    Mixed,
    /// All is forgotten before each read and each store.
    Forgetting,
}

/// A cache with a fault, in front of a real one.
#[derive(Debug)]
pub(super) struct FaultyCache<C> {
    inner: C,
    fault: Mutex<Fault>,
    last: Mutex<Option<(Key, Bytes)>>,
    reads: AtomicU64,
    stores: AtomicU64,
    /// Before a store is done.
    pub(super) store_gate: Gate,
}

impl<C: Cache> FaultyCache<C> {
    pub(super) fn new(inner: C) -> Self {
        Self {
            inner,
            fault: Mutex::new(Fault::None),
            last: Mutex::new(None),
            reads: AtomicU64::new(0),
            stores: AtomicU64::new(0),
            store_gate: Gate::new(),
        }
    }

    pub(super) fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    pub(super) fn stores(&self) -> u64 {
        self.stores.load(Ordering::SeqCst)
    }

    pub(super) async fn kept(&self, key: &Key) -> Option<Bytes> {
        self.inner.read(key).await.unwrap().hit.map(|hit| hit.entry)
    }

    pub(super) async fn overwrite(&self, key: &Key, bytes: &[u8]) {
        let ticket = self.inner.read(key).await.unwrap().ticket;
        let bytes = Bytes::copy_from_slice(bytes);
        let stored = self.inner.store(key, &ticket, bytes, HOUR).await;
        assert!(stored.unwrap());
    }

    /// Returns the fault, after its effect on every call.
    async fn suffer(&self) -> Result<Fault> {
        let fault = *self.fault.lock().unwrap();
        match fault {
            Fault::Failing => Err(Error::new(
                ErrorKind::Unavailable,
                Effect::Unknown,
                "the cache fails on purpose",
            )),
            Fault::Hanging => std::future::pending().await,
            Fault::Slow => {
                tokio::time::sleep(Duration::from_millis(500)).await;
                Ok(fault)
            }
            _ => Ok(fault),
        }
    }

    fn spoil(&self, fault: Fault, key: &Key, entry: Bytes) -> Bytes {
        match fault {
            Fault::Garbage => Bytes::from(rand_bytes(entry.len())),
            Fault::Mixed => {
                let last = self
                    .last
                    .lock()
                    .unwrap()
                    .replace((key.clone(), entry.clone()));
                last.filter(|(other, _)| other != key)
                    .map_or(entry, |(_, other)| other)
            }
            _ => entry,
        }
    }
}

fn rand_bytes(length: usize) -> Vec<u8> {
    let seed = *AttemptId::random().as_bytes();
    seed.into_iter().cycle().take(length).collect()
}

#[async_trait]
impl Cache for FaultyCache<LocalCache> {
    type Ticket = <LocalCache as Cache>::Ticket;

    async fn read(&self, key: &Key) -> Result<Lookup<Self::Ticket>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let fault = self.suffer().await?;
        if fault == Fault::Forgetting {
            self.inner.clear();
        }
        let mut lookup = self.inner.read(key).await?;
        if let Some(hit) = &mut lookup.hit {
            hit.entry = self.spoil(fault, key, hit.entry.clone());
        }
        Ok(lookup)
    }

    async fn store(
        &self,
        key: &Key,
        ticket: &Self::Ticket,
        entry: Bytes,
        lifetime: Duration,
    ) -> Result<bool> {
        self.stores.fetch_add(1, Ordering::SeqCst);
        self.store_gate.pass().await;
        if self.suffer().await? == Fault::Forgetting {
            self.inner.clear();
        }
        self.inner.store(key, ticket, entry, lifetime).await
    }

    async fn invalidate(&self, key: &Key) -> Result<()> {
        self.suffer().await?;
        self.inner.invalidate(key).await
    }
}

/// A memory store that counts its calls, can be emptied as an operator would, and waits at gates.
#[derive(Debug)]
pub(super) struct Database {
    inner: RwLock<MemoryStore>,
    work: AtomicU64,
    is_broken: AtomicBool,
    /// After a claim or lookup is done, before its answer is given.
    pub(super) answer_gate: Gate,
}

impl Database {
    pub(super) fn new() -> Self {
        Self {
            inner: RwLock::default(),
            work: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            answer_gate: Gate::new(),
        }
    }

    /// Returns the number of calls.
    pub(super) fn work(&self) -> u64 {
        self.work.load(Ordering::SeqCst)
    }

    /// Deletes everything, behind the stores' backs.
    pub(super) fn delete_all(&self) {
        *self.inner.write().unwrap() = MemoryStore::new();
    }

    pub(super) fn break_down(&self, is_broken: bool) {
        self.is_broken.store(is_broken, Ordering::SeqCst);
    }

    fn reachable(&self) -> Result<MemoryStore> {
        self.work.fetch_add(1, Ordering::SeqCst);
        if self.is_broken.load(Ordering::SeqCst) {
            let broken = Error::new(ErrorKind::Unavailable, Effect::None, "broken on purpose");
            return Err(broken.at("counting", "any"));
        }
        Ok(self.inner.read().unwrap().clone())
    }
}

#[async_trait]
impl IdempotencyStore for Database {
    fn backend(&self) -> &'static str {
        "counting"
    }

    fn limits(&self) -> Limits {
        Limits::DEFAULT
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        Some(self)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let outcome = self.reachable()?.claim(request).await;
        self.answer_gate.pass().await;
        outcome
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.reachable()?.complete(claim, response, retention).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.reachable()?.fail(claim, failure, retention).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.reachable()?.release(claim).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.reachable()?.renew(claim, lease).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let record = self.reachable()?.get(key).await;
        self.answer_gate.pass().await;
        record
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.reachable()?.delete_expired(limit).await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.reachable()?.fail_abandoned(limit).await
    }
}

#[async_trait]
impl RecordAdmin for Database {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        self.reachable()?.list(filter, after, limit).await
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        self.reachable()?.summary(key).await
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        self.reachable()?.force(step).await
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        self.reachable()?.rewrite(rewrite).await
    }
}

#[async_trait]
impl BatchStore for Database {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        match self.reachable() {
            Ok(store) => store.claim_many(requests).await,
            Err(error) => {
                let each = error.for_each_item();
                requests.iter().map(|_| Err(each())).collect()
            }
        }
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let store = self.inner.read().unwrap().clone();
        store.finish_many(items).await
    }
}

/// The store under test with what is below it.
pub(super) struct Hybrid {
    pub(super) store: HybridStore<Arc<FaultyCache<LocalCache>>, Arc<Database>>,
    pub(super) cache: Arc<FaultyCache<LocalCache>>,
    pub(super) database: Arc<Database>,
}

pub(super) fn hybrid() -> Hybrid {
    hybrid_with(Config::new().with_budget(Duration::from_secs(5)))
}

pub(super) fn hybrid_with(config: Config) -> Hybrid {
    let local = LocalCache::new(1 << 20).with_max_lifetime(HOUR);
    let (cache, database) = (Arc::new(FaultyCache::new(local)), Arc::new(Database::new()));
    Hybrid {
        store: HybridStore::with_config(cache.clone(), database.clone(), config),
        cache,
        database,
    }
}

impl Hybrid {
    /// Completes the key in the database, past the cache.
    pub(super) async fn complete(&self, id: &str, body: &str) {
        self.complete_for(id, body, HOUR).await;
    }

    pub(super) async fn complete_for(&self, id: &str, body: &str, retention: Duration) {
        let claim = self.database.claim(&request(id)).await.unwrap();
        let response = Response::new(201, body.to_owned()).with_header("name", "value");
        let claim = claim.acquired().expect("a free key");
        self.database
            .complete(&claim, &response, retention)
            .await
            .unwrap();
    }

    /// Completes the key and has it cached.
    pub(super) async fn cached(&self, id: &str, body: &str) {
        self.complete(id, body).await;
        assert_eq!(name(self, &request(id)).await, "completed");
        self.store.settled().await;
        assert!(self.cache.kept(request(id).key()).await.is_some());
    }

    pub(super) async fn hold(&self, id: &str) {
        let claim = self.database.claim(&request(id)).await.unwrap();
        drop(claim.acquired().expect("a free key"));
    }

    pub(super) async fn fail(&self, id: &str) {
        let claim = self.database.claim(&request(id)).await.unwrap();
        let claim = claim.acquired().expect("a free key");
        let failure = Failure::new("code", "message");
        self.database.fail(&claim, &failure, HOUR).await.unwrap();
    }

    /// Releases the key, which an attempt of [`name`] holds, through the store.
    pub(super) async fn release(&self, id: &str) {
        let claim = self.database.claim(&ours(&request(id))).await.unwrap();
        let claim = claim.acquired().expect("our claim");
        self.store.release(&claim).await.unwrap();
    }
}

/// Always the same attempt, so that its claim can be obtained again.
fn ours(request: &ClaimRequest) -> ClaimRequest {
    request.clone().with_attempt(AttemptId::from_bytes([1; 16]))
}

fn with_fingerprint(id: &str, of: &str) -> ClaimRequest {
    let key = Key::new("tenant", "payments.create", id).expect("valid");
    ClaimRequest::new(key, Fingerprint::raw(of)).with_lease(HOUR)
}

/// Returns a new attempt for the key of this id.
pub(super) fn request(id: &str) -> ClaimRequest {
    with_fingerprint(id, "the request")
}

/// Returns a request with the same key for something else.
pub(super) fn other_request(id: &str) -> ClaimRequest {
    with_fingerprint(id, "another request")
}

/// Returns the store's answer in one word.
pub(super) async fn name(hybrid: &Hybrid, request: &ClaimRequest) -> &'static str {
    hybrid.store.claim(&ours(request)).await.unwrap().name()
}
