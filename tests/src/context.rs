//! [`Context`]: the tools of a case.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::{
    BatchStore, Claim, ClaimRequest, Fingerprint, IdempotencyStore, InFlight, Key, Metadata, Record,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::secrets::{MARK, Watch};
use crate::watched::Watched;
use crate::{CallerTransaction, CaseError, CaseResult, Harness, Profile, eventually, expect};

/// A lease or retention that ends in no case.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// The options of a run of the suite.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The source of all randomness of the run.
    pub seed: u64,
    /// How long a case may take.
    pub deadline: Duration,
    /// How long a case may go on without an answer of a store.
    pub silence: Duration,
    /// The least lease that ends soon, as it was measured on the server.
    pub(crate) shortest_lease: Duration,
}

impl Settings {
    /// Returns options with a random seed, and for each case at most 600 s, and 30 s without an
    /// answer.
    #[must_use]
    pub fn new() -> Self {
        Self {
            seed: rand::random(),
            deadline: Duration::from_secs(600),
            silence: Duration::from_secs(30),
            shortest_lease: Duration::ZERO,
        }
    }

    /// Sets the seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets how long a case may go on without an answer of a store.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// A fresh namespace of one backend, a handle of it, and the factories that cases use.
pub struct Context {
    harness: Arc<dyn Harness>,
    namespace: String,
    store: Arc<dyn IdempotencyStore>,
    profile: Profile,
    seed: u64,
    forks: AtomicU64,
    asked_again: Arc<AtomicU64>,
    watch: Watch,
}

impl Context {
    /// Creates a namespace and opens it.
    ///
    /// # Errors
    ///
    /// The harness's error.
    pub async fn new(harness: Arc<dyn Harness>, seed: u64) -> CaseResult<Self> {
        Self::watched(harness, seed, Watch::default()).await
    }

    /// Does the same, and notes secrets that were shown in `watch`.
    pub(crate) async fn watched(
        harness: Arc<dyn Harness>,
        seed: u64,
        watch: Watch,
    ) -> CaseResult<Self> {
        let doing = |what: &'static str| move |error| CaseError::from(error).while_doing(what);
        let namespace = harness.create().await.map_err(doing("create"))?;
        let opened = harness.open(&namespace).await;
        if opened.is_err() {
            let _ = harness.destroy(&namespace).await;
        }
        let store = opened.map_err(doing("open"))?;
        Ok(Self {
            profile: harness.profile(),
            store: Arc::new(Watched::new(store, &watch)),
            harness,
            namespace,
            seed,
            forks: AtomicU64::new(0),
            asked_again: Arc::default(),
            watch,
        })
    }

    /// Makes leases that end soon at least as long as this.
    pub(crate) fn with_least_lease(mut self, least: Duration) -> Self {
        let lease = self.profile.shortest_lease().max(least);
        self.profile = self.profile.with_shortest_lease(lease);
        self
    }

    /// Removes the namespace.
    ///
    /// # Errors
    ///
    /// The harness's error.
    pub async fn destroy(&self) -> CaseResult {
        self.watch.debug("a store that was used", &self.store);
        let destroyed = self.harness.destroy(&self.namespace).await;
        destroyed.map_err(|error| CaseError::from(error).while_doing("destroy"))
    }

    /// Returns the harness.
    #[must_use]
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// Returns the locator of the namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the promises of the backend.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the first handle.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn IdempotencyStore> {
        &self.store
    }

    /// Opens another handle, with its own connections.
    ///
    /// # Errors
    ///
    /// The harness's error.
    pub async fn open(&self) -> CaseResult<Arc<dyn IdempotencyStore>> {
        Ok(self.watching(self.harness.open(&self.namespace).await?))
    }

    /// Wraps a store that was opened without [`open`](Self::open), so that it is searched for
    /// [secrets](crate::secrets), too.
    #[must_use]
    pub fn watching(&self, store: Arc<dyn IdempotencyStore>) -> Arc<dyn IdempotencyStore> {
        Arc::new(Watched::new(store, &self.watch))
    }

    /// Returns the watch for [secrets](crate::secrets) in this case.
    #[must_use]
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Opens a handle for batches.
    ///
    /// # Errors
    ///
    /// The harness's error; an error when it promises batches and opens none.
    pub async fn open_batch(&self) -> CaseResult<Arc<dyn BatchStore>> {
        let opened = self.harness.open_batch(&self.namespace).await?;
        let missing = || CaseError::new("batches are promised, but `open_batch` gives none");
        Ok(Arc::new(Watched::new(
            opened.ok_or_else(missing)?,
            &self.watch,
        )))
    }

    /// Begins a caller's transaction.
    ///
    /// # Errors
    ///
    /// The harness's error; an error when it promises transactions and begins none.
    pub async fn begin(&self) -> CaseResult<Box<dyn CallerTransaction>> {
        let begun = self.harness.begin(&self.namespace).await?;
        begun.ok_or_else(|| CaseError::new("transactions are promised, but `begin` gives none"))
    }

    /// Returns a new generator at each call, seeded from the case's seed.
    #[must_use]
    pub fn rng(&self) -> StdRng {
        StdRng::seed_from_u64(self.seed ^ (self.forks.fetch_add(1, Ordering::Relaxed) << 32))
    }

    /// Counts how often racing callers got [`Contention`](idem_core::ErrorKind::Contention) and
    /// tried again.
    #[must_use]
    pub fn asked_again(&self) -> &Arc<AtomicU64> {
        &self.asked_again
    }

    /// Returns a key of one tenant, whose name is a [secret](crate::secrets), and one operation.
    #[must_use]
    pub fn key(&self, id: impl AsRef<str>) -> Key {
        Key::new(format!("tenant-{MARK}"), "payments.create", id).expect("ids of cases are valid")
    }

    /// Returns a new attempt to claim the key, with a lease and retention that do not end during
    /// the case. All requests for one key have the same fingerprint. The metadata are a
    /// [secret](crate::secrets).
    #[must_use]
    pub fn request(&self, key: &Key) -> ClaimRequest {
        let fingerprint = Fingerprint::raw(key.hashed());
        ClaimRequest::new(key.clone(), fingerprint)
            .with_metadata(Metadata::new().with("host", MARK))
            .with_lease(LONG)
            .with_retention(LONG)
    }

    /// Returns a request with the same key and another fingerprint.
    #[must_use]
    pub fn other_request(&self, key: &Key) -> ClaimRequest {
        let fingerprint = Fingerprint::raw(format!("other than {}", key.hashed()));
        ClaimRequest::new(key.clone(), fingerprint)
            .with_metadata(Metadata::new().with("host", MARK))
            .with_lease(LONG)
            .with_retention(LONG)
    }

    /// Returns a duration for a lease or retention that ends soon.
    #[must_use]
    pub fn short(&self) -> Duration {
        self.profile.shortest_lease()
    }

    /// Claims a free key.
    ///
    /// # Errors
    ///
    /// An error when it was not acquired.
    pub async fn claim(&self, request: &ClaimRequest) -> CaseResult<Claim> {
        expect::acquired(self.store.claim(request).await?)
    }

    /// Claims a free key, and keeps it.
    ///
    /// # Errors
    ///
    /// An error when it was not acquired.
    pub async fn hold(&self, request: &ClaimRequest) -> CaseResult {
        self.claim(request).await.map(drop)
    }

    /// Claims a key and leaves it until its lease is over.
    ///
    /// # Errors
    ///
    /// As for [`stale_claim`](Self::stale_claim).
    pub async fn leave_stale(&self, request: &ClaimRequest) -> CaseResult {
        self.stale_claim(request).await.map(drop)
    }

    /// Claims a key with a short lease and waits until it ends.
    ///
    /// # Errors
    ///
    /// An error when it was not acquired, or its lease does not end.
    pub async fn stale_claim(&self, request: &ClaimRequest) -> CaseResult<Claim> {
        let request = request.clone().with_lease(self.short());
        let claim = self.claim(&request).await?;
        self.until_stale(request.key()).await?;
        Ok(claim)
    }

    /// Waits until the store reports the lease as ended.
    ///
    /// # Errors
    ///
    /// An error when it does not end, or there is no record in flight.
    pub async fn until_stale(&self, key: &Key) -> CaseResult<InFlight> {
        let ask = || async {
            match expect::record(self.store.get(key).await?)? {
                Record::InFlight(record) => Ok(record.is_stale().then_some(record)),
                _ => Err(CaseError::new("the record is in flight no longer")),
            }
        };
        eventually::eventually(self.profile.max_wait(), "the lease ends", ask).await
    }

    /// Waits until what has ended has also ended for a client with a wrong clock, as far as the
    /// profile lets it be wrong.
    pub async fn pass_clock_skew(&self) {
        tokio::time::sleep(self.profile.clock_skew()).await;
    }

    /// Waits until the key has no live record.
    ///
    /// # Errors
    ///
    /// An error when the record stays.
    pub async fn until_free(&self, key: &Key) -> CaseResult {
        let ask = || async { Ok(self.store.get(key).await?.is_none().then_some(())) };
        eventually::eventually(self.profile.max_wait(), "the retention ends", ask).await
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("backend", &self.harness.name())
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
