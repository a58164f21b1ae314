//! The contract of the caches that need no server.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{Bytes, Key};
use idem_hybrid::{Cache, LocalCache, Tiered};

use super::contract;
use super::fixture::{Fault, FaultyCache};

const MIB: u64 = 1 << 20;
const MINUTE: Duration = Duration::from_secs(60);

macro_rules! keeps_the_contract {
    ($name:ident, $cache:expr, $forget:expr) => {
        mod $name {
            use super::*;

            keeps_the_contract!(
                @each $cache;
                an_entry_is_served_as_it_was_stored,
                keys_never_mix,
                an_entry_is_served_until_its_lifetime_ends_and_not_after,
                lifetimes_count_from_the_ticket,
                an_invalidated_entry_is_served_no_more,
                a_late_store_after_an_invalidation_is_refused,
                a_ticket_is_good_however_many_reads_come_after_it,
                no_race_brings_an_old_entry_back,
            );

            #[tokio::test]
            async fn after_a_loss_of_memory_a_late_store_is_refused() {
                contract::after_a_loss_of_memory_a_late_store_is_refused($cache, $forget).await;
            }
        }
    };
    (@each $cache:expr; $($test:ident),+ $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            contract::$test($cache).await;
        })+
    };
}

type TwoTiers = Arc<Tiered<LocalCache, LocalCache>>;

fn far() -> LocalCache {
    LocalCache::new(MIB).with_max_lifetime(MINUTE)
}

fn two_tiers() -> TwoTiers {
    Arc::new(Tiered::new(LocalCache::new(MIB), far()))
}

keeps_the_contract!(local, LocalCache::new(MIB), async |cache: &LocalCache| {
    cache.clear();
});
keeps_the_contract!(tiered, two_tiers(), async |cache: &TwoTiers| {
    cache.far().clear();
    cache.near().clear();
});

fn key(id: &str) -> Key {
    Key::new("tenant", "test", id).expect("valid")
}

async fn put<C: Cache>(cache: &C, key: &Key, lifetime: Duration) -> bool {
    let ticket = cache.read(key).await.unwrap().ticket;
    let entry = Bytes::from_static(b"entry");
    cache.store(key, &ticket, entry, lifetime).await.unwrap()
}

#[tokio::test]
async fn a_local_entry_lives_no_longer_than_the_caches_maximum() {
    let cache = LocalCache::new(MIB).with_max_lifetime(Duration::from_secs(2));
    assert!(put(&cache, &key("one"), MINUTE).await);
    let hit = cache.read(&key("one")).await.unwrap().hit.unwrap();
    assert!(hit.age + hit.remaining <= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_local_entry_ends_by_the_monotonic_clock_too() {
    let cache = LocalCache::new(MIB);
    assert!(put(&cache, &key("one"), Duration::from_secs(3)).await);
    tokio::time::advance(Duration::from_millis(2999)).await;
    assert!(cache.read(&key("one")).await.unwrap().hit.is_some());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(cache.read(&key("one")).await.unwrap().hit.is_none());
}

#[tokio::test]
async fn a_local_cache_stays_within_its_bytes() {
    let cache = LocalCache::new(100_000);
    for id in 0..200 {
        let key = key(&id.to_string());
        let ticket = cache.read(&key).await.unwrap().ticket;
        let entry = Bytes::from(vec![0; 5_000]);
        cache.store(&key, &ticket, entry, MINUTE).await.unwrap();
    }
    let mut kept = 0;
    for id in 0..200 {
        let found = cache.read(&key(&id.to_string())).await.unwrap().hit;
        kept += usize::from(found.is_some());
    }
    assert!(
        (1..=20).contains(&kept),
        "{kept} entries of 5,000 bytes are kept"
    );
}

type Far = Arc<FaultyCache<LocalCache>>;

/// A far tier that can be made to fail, with the near one in front.
fn with_failing_far() -> (Far, Tiered<LocalCache, Far>) {
    let far = Arc::new(FaultyCache::new(far()));
    (far.clone(), Tiered::new(LocalCache::new(MIB), far))
}

#[tokio::test]
async fn a_far_entry_is_brought_near_with_its_age_and_its_end() {
    let (far, tiered) = with_failing_far();
    assert!(put(&*far, &key("one"), Duration::from_secs(4)).await);
    tokio::time::sleep(Duration::from_millis(30)).await;
    let first = tiered.read(&key("one")).await.unwrap().hit.unwrap();
    far.set(Fault::Failing);
    let second = tiered.read(&key("one")).await.unwrap().hit.unwrap();
    assert_eq!(
        second.entry, first.entry,
        "served near, the far tier is down"
    );
    assert!(second.age >= first.age && second.age >= Duration::from_millis(30));
    assert!(second.remaining <= first.remaining);
    assert_eq!(tiered.far_metrics().hits, 1);
}

#[tokio::test]
async fn the_near_tier_is_filled_and_answers_while_the_far_one_is_down() {
    let (far, tiered) = with_failing_far();
    far.set(Fault::Failing);
    for _ in 0..20 {
        assert!(tiered.read(&key("none")).await.unwrap().hit.is_none());
    }
    let metrics = tiered.far_metrics();
    assert_eq!(
        (metrics.errors, metrics.skipped),
        (5, 15),
        "its own breaker"
    );
    assert!(put(&tiered, &key("one"), MINUTE).await);
    assert!(tiered.read(&key("one")).await.unwrap().hit.is_some());
}

#[tokio::test]
async fn an_invalidation_that_the_far_tier_missed_is_an_error_and_reaches_the_near_one() {
    let (far, tiered) = with_failing_far();
    assert!(put(&tiered, &key("one"), MINUTE).await);
    far.set(Fault::Failing);
    assert!(tiered.invalidate(&key("one")).await.is_err());
    assert!(tiered.read(&key("one")).await.unwrap().hit.is_none());
    far.set(Fault::None);
    tiered.invalidate(&key("one")).await.unwrap();
}

#[tokio::test]
async fn an_invalidation_that_is_dropped_while_the_far_tier_hangs_has_reached_the_near_one() {
    let (far, tiered) = with_failing_far();
    let key = key("one");
    assert!(put(&tiered, &key, MINUTE).await);
    far.set(Fault::Hanging);
    let hung = tokio::time::timeout(Duration::from_millis(20), tiered.invalidate(&key));
    assert!(hung.await.is_err());
    assert!(tiered.near().read(&key).await.unwrap().hit.is_none());
}

#[tokio::test]
async fn a_record_that_the_far_tier_refuses_is_not_kept_near() {
    let (far, tiered) = with_failing_far();
    let ticket = tiered.read(&key("one")).await.unwrap().ticket;
    far.invalidate(&key("one")).await.unwrap(); // by another process
    let entry = Bytes::from_static(b"old");
    assert!(
        !tiered
            .store(&key("one"), &ticket, entry, MINUTE)
            .await
            .unwrap()
    );
    assert!(tiered.read(&key("one")).await.unwrap().hit.is_none());
}
