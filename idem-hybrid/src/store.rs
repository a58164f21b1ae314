//! [`HybridStore`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{
    CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Completed, Effect, Error, ErrorKind,
    Failure, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result, WatermarkStore,
};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use crate::front::{CacheAnswer, Front, Miss};
use crate::{Cache, CacheMetrics, Config, Reads};

pub(crate) const BACKEND: &str = "hybrid";

/// A cache in front of a database, which stays the only source of truth.
///
/// The cache answers for completed records; everything else, and every decision, is the database's.
/// Whatever the cache does (down, slow, flushed, evicting, full of garbage or of other keys'
/// entries), each answer is one that the database alone would have given. No error of the cache
/// reaches a caller, except from [`invalidate`](Self::invalidate) and from a forced deletion.
///
/// A clone shares cache, database, breaker and counts. Operations need a tokio runtime with its
/// timer, as the databases do.
///
/// ```
/// # #[cfg(feature = "local")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_core::{Idempotency, Key, MemoryStore};
/// use idem_hybrid::{HybridStore, LocalCache};
///
/// let store = HybridStore::new(LocalCache::new(64 << 20), MemoryStore::new());
/// let idempotency = Idempotency::new(store.clone());
/// let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
/// for _ in 0..3 {
///     let charge = async |_work| Ok::<_, std::io::Error>("receipt 1".to_owned());
///     idempotency.run(&key, &("EUR", 1200), charge).await?;
///     store.settled().await; // until promotions are done; a service never waits
/// }
/// assert_eq!(store.metrics().hits, 1);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "local"))]
/// # fn main() {}
/// ```
///
/// # Why the cache cannot lie
///
/// * Only completed records are cached. The database never changes one until its retention ends,
///   and the entry's lifetime ends before that: it is the time left by the database's answer,
///   counted from an instant *before* the database was read, less a thousandth for clocks that
///   drift.
/// * An entry carries its key, a checksum and the fingerprint; each hit checks them all.
/// * An operator deletes a completed record through the store, by
///   [`force`](idem_core::RecordAdmin::force), which also makes the cache forget it. An operator
///   that deletes one behind the store's back must then call [`invalidate`](Self::invalidate).
#[derive(Debug)]
pub struct HybridStore<C: Cache, S> {
    pub(crate) front: Arc<Front<C>>,
    pub(crate) database: Arc<S>,
}

impl<C: Cache, S> Clone for HybridStore<C, S> {
    fn clone(&self) -> Self {
        Self {
            front: Arc::clone(&self.front),
            database: Arc::clone(&self.database),
        }
    }
}

impl<C: Cache, S: IdempotencyStore> HybridStore<C, S> {
    /// Puts the cache in front of the database, with the default [`Config`].
    ///
    /// The cache must keep entries of this database only.
    #[must_use]
    pub fn new(cache: C, database: S) -> Self {
        Self::with_config(cache, database, Config::new())
    }

    /// Puts the cache in front of the database, with this config.
    #[must_use]
    pub fn with_config(cache: C, database: S, config: Config) -> Self {
        Self {
            front: Arc::new(Front::new(cache, config)),
            database: Arc::new(database),
        }
    }

    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &S {
        &self.database
    }

    /// Returns the cache.
    #[must_use]
    pub fn cache(&self) -> &C {
        &self.front.cache
    }

    /// Returns how the cache is used.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.front.config
    }

    /// Returns the results of the cache's calls so far.
    #[must_use]
    pub fn metrics(&self) -> CacheMetrics {
        self.front.counters.snapshot()
    }

    /// Makes the cache forget the key, after an operator has deleted or released its record *in the
    /// database*, behind this store's back. Keep this order: the database first, then this.
    ///
    /// When it has returned `Ok`, no process that shares the cache replays the deleted record,
    /// however late an earlier promotion arrives: a ticket issued before this call is void, and one
    /// issued after it comes before a read of the database that no longer finds the record. The
    /// call does not reach the in-process tiers of *other* processes. They may replay the record
    /// until its lifetime there ends (default: 5 s).
    ///
    /// An open breaker does not prevent this call.
    ///
    /// # Errors
    ///
    /// The cache could not be reached within the background budget (`Unavailable` after a time-out;
    /// otherwise the cache's error). The record may be replayed until its entry's lifetime ends.
    /// Repeat it until it succeeds.
    ///
    /// # Cancellation
    ///
    /// The cache may have forgotten the key or not; repeat it.
    pub async fn invalidate(&self, key: &Key) -> Result<()> {
        let returned = self.front.invalidate(key).await;
        returned.map_err(|error| error.at(BACKEND, "invalidate"))
    }

    /// Waits until the promotions that are under way have ended; for shutting down, and for tests.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    pub async fn settled(&self) {
        self.front.settled().await;
    }

    async fn claim_cache_first(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let miss = match self.front.ask(request.key()).await {
            CacheAnswer::Hit(record) => return Ok(replay(*record, request)),
            CacheAnswer::Miss(miss) => miss,
        };
        let outcome = self.database.claim(request).await?;
        self.learn(request.key(), miss, completed(&outcome));
        Ok(outcome)
    }

    /// Returns the first of the cache's hit and the database's answer.
    async fn claim_together(
        &self,
        request: &ClaimRequest,
        (runtime, slot): (Handle, OwnedSemaphorePermit),
    ) -> Result<ClaimOutcome> {
        let (database, owned) = (Arc::clone(&self.database), request.clone());
        let mut claiming = runtime.spawn(async move {
            let outcome = database.claim(&owned).await;
            drop(slot);
            outcome
        });
        let outcome = tokio::select! {
            biased;
            outcome = &mut claiming => outcome,
            answer = self.front.ask(request.key()) => match answer {
                CacheAnswer::Hit(record) => {
                    runtime.spawn(give_back(Arc::clone(&self.database), claiming));
                    return Ok(replay(*record, request));
                }
                CacheAnswer::Miss(_) => claiming.await,
            },
        };
        let outcome = outcome.map_err(|error| ended_early().with_source(error))??;
        if completed(&outcome).is_some() {
            self.promote_anew(request.key());
        }
        Ok(outcome)
    }

    /// Returns what a claim beside a cache lookup needs; `None` when too many are under way, so
    /// that they do not pile up without end while the database hangs.
    fn beside(&self) -> Option<(Handle, OwnedSemaphorePermit)> {
        let runtime = Handle::try_current().ok()?;
        let slot = Arc::clone(&self.front.together).try_acquire_owned().ok()?;
        Some((runtime, slot))
    }

    /// Uses the database's answer, in the background: promotes a completed record, removes garbage.
    pub(crate) fn learn(&self, key: &Key, miss: Miss<C::Ticket>, record: Option<&Completed>) {
        let (front, key) = (Arc::clone(&self.front), key.clone());
        match (record.cloned(), miss.ticket) {
            (Some(record), Some(ticket)) => self
                .front
                .in_background(async move { front.promote(&key, &ticket, &record).await }),
            (None, _) if miss.is_garbage => self
                .front
                .in_background(async move { front.forget(&key).await }),
            (Some(_) | None, _) => {}
        }
    }

    /// Promotes the record under a ticket of its own, with a read of the database after it.
    fn promote_anew(&self, key: &Key) {
        let (front, database) = (Arc::clone(&self.front), Arc::clone(&self.database));
        let key = key.clone();
        self.front.in_background(async move {
            let Some(ticket) = front.ticket(&key).await else {
                return;
            };
            if let Ok(Some(Record::Completed(record))) = database.get(&key).await {
                front.promote(&key, &ticket, &record).await;
            }
        });
    }
}

/// The caller has its answer. A claim that the database still grants has no holder, and is
/// released.
///
/// No caller repeats this attempt's claim: its caller already got the stored result. A caller that
/// *dropped* its claim may repeat it, so that case is left to the lease.
async fn give_back<S: IdempotencyStore>(
    database: Arc<S>,
    claiming: JoinHandle<Result<ClaimOutcome>>,
) {
    if let Ok(Ok(ClaimOutcome::Acquired(claim))) = claiming.await {
        // If this fails, the lease ends.
        let _ = database.release(&claim).await;
    }
}

pub(crate) fn replay(record: Completed, request: &ClaimRequest) -> ClaimOutcome {
    ClaimOutcome::from_record(Record::Completed(record), request.fingerprint())
}

/// Returns the record, if the answer carries one that may be cached.
pub(crate) fn completed(outcome: &ClaimOutcome) -> Option<&Completed> {
    match outcome {
        ClaimOutcome::Completed(record) => Some(record),
        ClaimOutcome::Acquired(_)
        | ClaimOutcome::InFlight(_)
        | ClaimOutcome::Failed(_)
        | ClaimOutcome::Conflict(_) => None,
    }
}

fn ended_early() -> Error {
    Error::new(
        ErrorKind::Other,
        Effect::Unknown,
        "the database's claim ended without an answer",
    )
    .at(BACKEND, "claim")
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<C: Cache, S: IdempotencyStore> IdempotencyStore for HybridStore<C, S> {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn limits(&self) -> Limits {
        self.database.limits()
    }

    /// Returns the database's: a checkpoint belongs to its holder, and is never cached.
    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        self.database.checkpoints()
    }

    /// Returns the database's: an old mark from a cache would let stale events through.
    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        self.database.watermarks()
    }

    /// Returns the database's, if it has one, and keeps the cache from replaying what a forced step
    /// has deleted.
    fn admin(&self) -> Option<&dyn RecordAdmin> {
        self.database.admin().map(|_| self as &dyn RecordAdmin)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        // Input that the database refuses is refused whatever is cached, and in the same words.
        if check::claim(request, &self.limits()).is_err() {
            return self.database.claim(request).await;
        }
        let beside = match self.front.config.reads {
            Reads::CacheFirst => None,
            Reads::Together => self.beside(),
        };
        match beside {
            None => self.claim_cache_first(request).await,
            Some(beside) => self.claim_together(request, beside).await,
        }
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.database.complete(claim, response, retention).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.database.fail(claim, failure, retention).await
    }

    /// Inline, not in the background: when it returns, the cache has forgotten the key or the
    /// budget is spent. Nothing completed can be cached for a key that is held, so this is only a
    /// safeguard, and its failure is no error.
    async fn release(&self, claim: &Claim) -> Result<()> {
        self.database.release(claim).await?;
        self.front.forget(claim.key()).await;
        Ok(())
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.database.renew(claim, lease).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let miss = match self.front.ask(key).await {
            CacheAnswer::Hit(record) => return Ok(Some(Record::Completed(*record))),
            CacheAnswer::Miss(miss) => miss,
        };
        let record = self.database.get(key).await?;
        let found = match &record {
            Some(Record::Completed(found)) => Some(found),
            Some(Record::InFlight(_) | Record::Failed(_)) | None => None,
        };
        self.learn(key, miss, found);
        Ok(record)
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.database.delete_expired(limit).await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.database.fail_abandoned(limit).await
    }
}
