//! A deleted record stays deleted, however late a promotion comes.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{Bytes, ErrorKind, IdempotencyStore, Key, Result, async_trait};
use idem_hybrid::{Cache, Hit, HybridStore, LocalCache, Lookup, Tiered};

use super::fixture::{Database, Fault, FaultyCache, HOUR, Hybrid, hybrid, name, request};

/// Where the promotion is paused.
#[derive(Debug, Clone, Copy)]
enum Pause {
    /// After the database has answered, before its answer arrives.
    BeforeTheAnswer,
    /// Before the cache stores it.
    BeforeTheStore,
}

/// Completes a key, starts its promotion, pauses it, deletes the record, invalidates the key, and
/// lets the promotion go on. Returns what the store then says of the key.
async fn late_promotion(hybrid: &Hybrid, pause: Pause) -> &'static str {
    hybrid.complete("done", "x").await;
    let gate = match pause {
        Pause::BeforeTheAnswer => &hybrid.database.answer_gate,
        Pause::BeforeTheStore => &hybrid.cache.store_gate,
    };
    gate.shut();
    let (store, done) = (hybrid.store.clone(), request("done"));
    let duplicate = tokio::spawn(async move { store.claim(&done).await });
    gate.someone_waits().await;
    hybrid.database.delete_all();
    hybrid
        .store
        .invalidate(request("done").key())
        .await
        .unwrap();
    gate.open();
    assert_eq!(
        duplicate.await.unwrap().unwrap().name(),
        "completed",
        "it was, at the time of the claim"
    );
    hybrid.store.settled().await;
    name(hybrid, &request("done")).await
}

#[tokio::test]
async fn a_late_promotion_does_not_undo_an_invalidation() {
    for pause in [Pause::BeforeTheAnswer, Pause::BeforeTheStore] {
        let hybrid = hybrid();
        assert_eq!(
            late_promotion(&hybrid, pause).await,
            "acquired",
            "{pause:?}"
        );
        let metrics = hybrid.store.metrics();
        assert_eq!(
            (metrics.refused, metrics.promoted, metrics.hits),
            (1, 0, 0),
            "{pause:?}"
        );
    }
}

/// A conventional cache: it stores every entry, whatever happened since.
#[derive(Debug)]
struct Forgetful(LocalCache);

#[async_trait]
impl Cache for Forgetful {
    type Ticket = ();

    async fn read(&self, key: &Key) -> Result<Lookup<()>> {
        let hit = self.0.read(key).await?.hit;
        Ok(Lookup { hit, ticket: () })
    }

    async fn store(&self, key: &Key, _: &(), entry: Bytes, lifetime: Duration) -> Result<bool> {
        let ticket = self.0.read(key).await?.ticket;
        self.0.store(key, &ticket, entry, lifetime).await
    }

    async fn invalidate(&self, key: &Key) -> Result<()> {
        self.0.invalidate(key).await
    }
}

#[tokio::test]
async fn without_epochs_the_deleted_record_comes_back() {
    let database = Arc::new(Database::new());
    let store = HybridStore::new(Forgetful(LocalCache::new(1 << 20)), database.clone());
    let claim = store
        .claim(&request("done"))
        .await
        .unwrap()
        .acquired()
        .unwrap();
    let response = idem_core::Response::new(200, "x");
    store.complete(&claim, &response, HOUR).await.unwrap();
    database.answer_gate.shut();
    let (duplicate, done) = (store.clone(), request("done"));
    let duplicate = tokio::spawn(async move { duplicate.claim(&done).await });
    database.answer_gate.someone_waits().await;
    database.delete_all();
    store.invalidate(claim.key()).await.unwrap();
    database.answer_gate.open();
    assert_eq!(duplicate.await.unwrap().unwrap().name(), "completed");
    store.settled().await;
    let after = store.claim(&request("done")).await.unwrap();
    assert_eq!(after.name(), "completed", "the test above would notice");
}

#[tokio::test]
async fn a_late_lookup_does_not_undo_an_invalidation_either() {
    let hybrid = hybrid();
    hybrid.complete("done", "x").await;
    hybrid.database.answer_gate.shut();
    let store = hybrid.store.clone();
    let lookup = tokio::spawn(async move { store.get(request("done").key()).await });
    hybrid.database.answer_gate.someone_waits().await;
    hybrid.database.delete_all();
    hybrid
        .store
        .invalidate(request("done").key())
        .await
        .unwrap();
    hybrid.database.answer_gate.open();
    assert!(lookup.await.unwrap().unwrap().is_some());
    hybrid.store.settled().await;
    assert_eq!(hybrid.store.metrics().refused, 1);
    assert!(
        hybrid
            .store
            .get(request("done").key())
            .await
            .unwrap()
            .is_none()
    );
}

/// A far tier that waits after it has read, so that its answer is late.
#[derive(Debug)]
struct LateFar {
    inner: LocalCache,
    read: tokio::sync::Barrier,
    go_on: tokio::sync::Barrier,
}

#[async_trait]
impl Cache for LateFar {
    type Ticket = <LocalCache as Cache>::Ticket;

    async fn read(&self, key: &Key) -> Result<Lookup<Self::Ticket>> {
        let lookup = self.inner.read(key).await;
        self.read.wait().await;
        self.go_on.wait().await;
        lookup
    }

    async fn store(
        &self,
        key: &Key,
        ticket: &Self::Ticket,
        entry: Bytes,
        lifetime: Duration,
    ) -> Result<bool> {
        self.inner.store(key, ticket, entry, lifetime).await
    }

    async fn invalidate(&self, key: &Key) -> Result<()> {
        self.inner.invalidate(key).await
    }
}

#[tokio::test]
async fn a_far_hit_that_comes_late_is_not_kept_near() {
    let far = LateFar {
        inner: LocalCache::new(1 << 20),
        read: tokio::sync::Barrier::new(2),
        go_on: tokio::sync::Barrier::new(2),
    };
    let key = request("done").key().clone();
    let ticket = far.inner.read(&key).await.unwrap().ticket;
    let entry = Bytes::from_static(b"entry");
    assert!(
        far.inner
            .store(&key, &ticket, entry.clone(), HOUR)
            .await
            .unwrap()
    );
    let tiered = Arc::new(Tiered::new(LocalCache::new(1 << 20), far).with_far_budget(HOUR));
    let (reading, read_key) = (tiered.clone(), key.clone());
    let reading = tokio::spawn(async move { reading.read(&read_key).await });
    tiered.far().read.wait().await;
    tiered.invalidate(&key).await.unwrap();
    tiered.far().go_on.wait().await;
    let late: Option<Hit> = reading.await.unwrap().unwrap().hit;
    assert_eq!(late.unwrap().entry, entry, "it was there when it was read");
    assert!(tiered.near().read(&key).await.unwrap().hit.is_none());
}

#[tokio::test]
async fn a_promotion_paused_past_the_retention_stores_nothing() {
    let hybrid = hybrid();
    hybrid
        .complete_for("done", "x", Duration::from_millis(100))
        .await;
    hybrid.cache.store_gate.shut();
    assert_eq!(name(&hybrid, &request("done")).await, "completed");
    hybrid.cache.store_gate.someone_waits().await;
    while hybrid
        .database
        .get(request("done").key())
        .await
        .unwrap()
        .is_some()
    {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    hybrid.cache.store_gate.open();
    hybrid.store.settled().await;
    assert_eq!(hybrid.store.metrics().refused, 1);
    assert_eq!(name(&hybrid, &request("done")).await, "acquired");
}

#[tokio::test]
async fn a_cached_record_ends_no_later_than_the_databases() {
    let hybrid = hybrid();
    hybrid
        .complete_for("done", "x", Duration::from_millis(300))
        .await;
    name(&hybrid, &request("done")).await;
    hybrid.store.settled().await;
    let mut replays = 0;
    loop {
        // Read first: what the database no longer has, the store must not have later.
        let is_over = hybrid
            .database
            .get(request("done").key())
            .await
            .unwrap()
            .is_none();
        let replayed = hybrid
            .store
            .get(request("done").key())
            .await
            .unwrap()
            .is_some();
        assert!(!(is_over && replayed), "served after its end");
        if is_over {
            break;
        }
        replays += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(replays > 10 && hybrid.store.metrics().hits > 10);
}

#[tokio::test]
async fn a_cache_that_forgets_between_ticket_and_store_refuses() {
    let hybrid = hybrid();
    hybrid.complete("done", "x").await;
    hybrid.cache.set(Fault::Forgetting);
    name(&hybrid, &request("done")).await;
    hybrid.store.settled().await;
    assert_eq!(hybrid.store.metrics().refused, 1);
}

#[tokio::test]
async fn an_invalidation_without_the_cache_is_an_error() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    hybrid.cache.set(Fault::Failing);
    let error = hybrid
        .store
        .invalidate(request("done").key())
        .await
        .unwrap_err();
    assert_eq!(
        (error.backend(), error.operation()),
        ("hybrid", "invalidate")
    );
    assert!(error.is_retryable());
    hybrid.cache.set(Fault::None);
    hybrid
        .store
        .invalidate(request("done").key())
        .await
        .unwrap();
    assert!(hybrid.cache.kept(request("done").key()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_operator_waits_for_a_cache_that_hangs_no_longer_than_the_budget() {
    let hybrid = hybrid();
    hybrid.cache.set(Fault::Hanging);
    let error = hybrid
        .store
        .invalidate(request("done").key())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn an_operators_invalidation_is_sent_though_the_breaker_is_open() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    hybrid.cache.set(Fault::Failing);
    for _ in 0..5 {
        name(&hybrid, &request("done")).await;
    }
    hybrid.cache.set(Fault::None);
    name(&hybrid, &request("done")).await;
    assert!(hybrid.store.metrics().skipped > 0, "the breaker is open");
    hybrid
        .store
        .invalidate(request("done").key())
        .await
        .unwrap();
    assert!(hybrid.cache.kept(request("done").key()).await.is_none());
}

#[tokio::test]
async fn a_release_notifies_the_cache_and_succeeds_without_it() {
    let hybrid = hybrid();
    let claim = hybrid
        .store
        .claim(&request("held"))
        .await
        .unwrap()
        .acquired()
        .unwrap();
    hybrid
        .cache
        .overwrite(claim.key(), b"what should not be")
        .await;
    hybrid.store.release(&claim).await.unwrap();
    assert!(hybrid.cache.kept(claim.key()).await.is_none());
    let claim = hybrid
        .store
        .claim(&request("held"))
        .await
        .unwrap()
        .acquired()
        .unwrap();
    hybrid.cache.set(Fault::Failing);
    hybrid.store.release(&claim).await.unwrap();
    assert_eq!(name(&hybrid, &request("held")).await, "acquired");
}

#[tokio::test]
async fn a_faulty_cache_is_a_cache() {
    // The other tests rest on this.
    let cache = Arc::new(FaultyCache::new(LocalCache::new(1 << 20)));
    super::contract::an_entry_is_served_as_it_was_stored(cache).await;
}
