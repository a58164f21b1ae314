//! The promises of every cache, as tests that take one.

use std::time::{Duration, Instant};

use idem_core::{Bytes, Key};
use idem_hybrid::{Cache, Hit};

const MINUTE: Duration = Duration::from_secs(60);

/// The clocks of cache and test may differ by this much: a cache may count in whole milliseconds.
const TICK: Duration = Duration::from_millis(3);

/// A key that no other test uses.
fn key(id: &str) -> Key {
    Key::new("contract", "test", id).expect("a valid id")
}

fn entry(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

async fn hit<C: Cache>(cache: &C, key: &Key) -> Option<Hit> {
    cache.read(key).await.expect("read").hit
}

async fn served<C: Cache>(cache: &C, key: &Key) -> Option<Bytes> {
    hit(cache, key).await.map(|hit| hit.entry)
}

/// Stores under a ticket of its own.
async fn put<C: Cache>(cache: &C, key: &Key, text: &str, lifetime: Duration) -> bool {
    let ticket = cache.read(key).await.expect("read").ticket;
    let stored = cache.store(key, &ticket, entry(text), lifetime).await;
    stored.expect("store")
}

pub(crate) async fn an_entry_is_served_as_it_was_stored<C: Cache>(cache: C) {
    let key = key("as stored");
    assert_eq!(served(&cache, &key).await, None);
    let binary = Bytes::from((0..=255).cycle().take(70_000).collect::<Vec<u8>>());
    let ticket = cache.read(&key).await.expect("read").ticket;
    assert!(
        cache
            .store(&key, &ticket, binary.clone(), MINUTE)
            .await
            .expect("store")
    );
    assert_eq!(served(&cache, &key).await, Some(binary));
    assert!(put(&cache, &key, "another", MINUTE).await);
    assert_eq!(served(&cache, &key).await, Some(entry("another")));
}

pub(crate) async fn keys_never_mix<C: Cache>(cache: C) {
    let parts = [
        ("ab", "c", "d"),
        ("a", "bc", "d"),
        ("a", "b", "cd"),
        ("a:b", "c", "d"),
        ("a", "b:c", "d"),
        ("a%3Ab", "c", "d"),
        ("A", "b", "cd"),
        ("a", "b", "cd "),
        ("{a}", "b", "cd"),
        ("a", "{b}", "cd"),
        ("é", "b", "c"),
        ("e\u{301}", "b", "c"),
    ];
    let keys = parts.map(|(scope, operation, id)| Key::new(scope, operation, id).expect("valid"));
    for (place, key) in keys.iter().enumerate() {
        assert!(put(&cache, key, &place.to_string(), MINUTE).await);
    }
    for (place, key) in keys.iter().enumerate() {
        assert_eq!(
            served(&cache, key).await,
            Some(entry(&place.to_string())),
            "{place}"
        );
    }
    cache.invalidate(&keys[0]).await.expect("invalidate");
    assert_eq!(served(&cache, &keys[1]).await, Some(entry("1")));
}

pub(crate) async fn an_entry_is_served_until_its_lifetime_ends_and_not_after<C: Cache>(cache: C) {
    const LIFETIME: Duration = Duration::from_millis(400);
    let key = key("until its end");
    let before = Instant::now();
    let ticket = cache.read(&key).await.expect("read").ticket;
    let after = Instant::now();
    assert!(
        cache
            .store(&key, &ticket, entry("x"), LIFETIME)
            .await
            .expect("store")
    );
    let mut hits = 0;
    loop {
        let read_at = Instant::now();
        let Some(hit) = hit(&cache, &key).await else {
            break;
        };
        hits += 1;
        assert!(read_at < after + LIFETIME + TICK, "served after its end");
        assert!(hit.age <= before.elapsed() + TICK, "older than it can be");
        assert!(hit.age + TICK >= read_at - after, "younger than it is");
        assert!(hit.age + hit.remaining <= LIFETIME + TICK, "{hit:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(before.elapsed() + TICK >= LIFETIME, "gone before its end");
    assert!(hits > 0, "never served");
}

pub(crate) async fn lifetimes_count_from_the_ticket<C: Cache>(cache: C) {
    const PAUSE: Duration = Duration::from_millis(150);
    let (short, long) = (key("shorter than the pause"), key("longer than the pause"));
    let short_ticket = cache.read(&short).await.expect("read").ticket;
    let long_ticket = cache.read(&long).await.expect("read").ticket;
    tokio::time::sleep(PAUSE + TICK).await;
    let late = cache.store(&short, &short_ticket, entry("x"), PAUSE).await;
    late.expect("stored or refused");
    assert_eq!(served(&cache, &short).await, None);
    let stored = cache.store(&long, &long_ticket, entry("x"), MINUTE).await;
    assert!(stored.expect("store"));
    let hit = hit(&cache, &long).await.expect("a hit");
    assert!(hit.age >= PAUSE, "{hit:?}");
    assert!(hit.remaining <= MINUTE - PAUSE, "{hit:?}");
}

pub(crate) async fn an_invalidated_entry_is_served_no_more<C: Cache>(cache: C) {
    let key = key("invalidated");
    cache.invalidate(&key).await.expect("of nothing");
    assert!(put(&cache, &key, "x", MINUTE).await);
    cache.invalidate(&key).await.expect("invalidate");
    assert_eq!(served(&cache, &key).await, None);
    cache.invalidate(&key).await.expect("again");
    assert!(
        put(&cache, &key, "new", MINUTE).await,
        "a new ticket is good"
    );
    assert_eq!(served(&cache, &key).await, Some(entry("new")));
}

pub(crate) async fn a_late_store_after_an_invalidation_is_refused<C: Cache>(cache: C) {
    let key = key("late");
    let early = cache.read(&key).await.expect("read").ticket;
    let also_early = cache.read(&key).await.expect("read").ticket;
    cache.invalidate(&key).await.expect("invalidate");
    for ticket in [early, also_early] {
        let stored = cache.store(&key, &ticket, entry("late"), MINUTE).await;
        assert!(!stored.expect("store"), "an old ticket was taken");
        assert_eq!(served(&cache, &key).await, None);
    }
    assert!(put(&cache, &key, "new", MINUTE).await);
    let ticket = cache.read(&key).await.expect("read").ticket;
    cache.invalidate(&key).await.expect("invalidate");
    cache.invalidate(&key).await.expect("invalidate");
    let stored = cache.store(&key, &ticket, entry("late"), MINUTE).await;
    assert!(
        !stored.expect("store"),
        "two invalidations made it good again"
    );
}

pub(crate) async fn a_ticket_is_good_however_many_reads_come_after_it<C: Cache>(cache: C) {
    let key = key("many reads");
    let ticket = cache.read(&key).await.expect("read").ticket;
    for _ in 0..10 {
        assert_eq!(served(&cache, &key).await, None);
    }
    let stored = cache.store(&key, &ticket, entry("x"), MINUTE).await;
    assert!(stored.expect("store"));
    assert_eq!(served(&cache, &key).await, Some(entry("x")));
}

pub(crate) async fn after_a_loss_of_memory_a_late_store_is_refused<C, F>(cache: C, forget: F)
where
    C: Cache,
    F: AsyncFn(&C),
{
    let key = key("forgotten");
    assert!(put(&cache, &key, "old", MINUTE).await);
    let ticket = cache.read(&key).await.expect("read").ticket;
    forget(&cache).await;
    assert_eq!(served(&cache, &key).await, None);
    let stored = cache.store(&key, &ticket, entry("late"), MINUTE).await;
    assert!(!stored.expect("store"), "a ticket outlived the memory");
    assert_eq!(served(&cache, &key).await, None);
    assert!(put(&cache, &key, "new", MINUTE).await);
}

/// Readers store while one caller invalidates: after each invalidation nothing older is served.
pub(crate) async fn no_race_brings_an_old_entry_back<C: Cache + Clone>(cache: C) {
    let key = key("raced");
    let truth = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (cache, key, truth) = (cache.clone(), key.clone(), truth.clone());
        writers.spawn(async move {
            loop {
                let ticket = cache.read(&key).await.expect("read").ticket;
                let seen = truth.load(std::sync::atomic::Ordering::SeqCst);
                tokio::task::yield_now().await;
                let entry = Bytes::copy_from_slice(&seen.to_be_bytes());
                let _ = cache
                    .store(&key, &ticket, entry, MINUTE)
                    .await
                    .expect("store");
            }
        });
    }
    for round in 1..=300_u64 {
        truth.store(round, std::sync::atomic::Ordering::SeqCst);
        cache.invalidate(&key).await.expect("invalidate");
        for _ in 0..3 {
            if let Some(entry) = served(&cache, &key).await {
                assert_eq!(entry, round.to_be_bytes()[..], "an older entry came back");
            }
            tokio::task::yield_now().await;
        }
    }
    writers.shutdown().await;
}
