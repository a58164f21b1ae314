//! Checkpoints and watermarks bypass the cache.

use std::time::Duration;

use idem_core::{Advance, Checkpoint, IdempotencyStore, MemoryStore, Response};
use idem_hybrid::{HybridStore, LocalCache};

use super::fixture::{Fault, FaultyCache, HOUR, request};

#[tokio::test]
async fn no_fault_of_the_cache_reaches_a_checkpoint_or_a_mark() {
    for fault in [Fault::Failing, Fault::Hanging, Fault::Garbage] {
        let cache = FaultyCache::new(LocalCache::new(1 << 20));
        let store = HybridStore::new(cache, MemoryStore::new());
        let held = store.claim(&request("one")).await.unwrap();
        let claim = held.acquired().unwrap();
        let reads = store.cache().reads();
        store.cache().set(fault);
        let checkpoints = store.checkpoints().expect("the database keeps them");
        let point = Checkpoint::new("charged", "receipt 1").unwrap();
        checkpoints.checkpoint(&claim, &point).await.unwrap();
        let last = checkpoints.last_checkpoint(&claim).await.unwrap();
        assert_eq!(last.as_ref(), Some(&point), "{fault:?}");
        let marks = store.watermarks().expect("the database keeps them");
        for (version, expected) in [
            (7, Advance::Advanced),
            (7, Advance::Unchanged),
            (6, Advance::Stale { current: 7 }),
        ] {
            let advanced = marks.advance(claim.key(), version, HOUR).await;
            assert_eq!(advanced.unwrap(), expected, "{fault:?}");
        }
        let mark = marks.watermark(claim.key()).await.unwrap();
        assert_eq!(mark, Some(7), "{fault:?}");
        assert_eq!(store.cache().reads(), reads, "the cache was read");
        assert_eq!(store.cache().stores(), 0);
    }
}

#[tokio::test]
async fn a_takeover_finds_the_checkpoint_and_a_completion_is_cached_without() {
    let cache = FaultyCache::new(LocalCache::new(1 << 20));
    let store = HybridStore::new(cache, MemoryStore::new());
    let short = Duration::from_millis(1);
    let held = store
        .claim(&request("one").with_lease(short))
        .await
        .unwrap();
    let first = held.acquired().unwrap();
    let point = Checkpoint::new("charged", "receipt 1").unwrap();
    let checkpoints = store.checkpoints().unwrap();
    checkpoints.checkpoint(&first, &point).await.unwrap();
    let claim = loop {
        if let Some(claim) = store.claim(&request("one")).await.unwrap().acquired() {
            break claim;
        }
    };
    let last = checkpoints.last_checkpoint(&claim).await.unwrap();
    assert_eq!(last, Some(point));
    store.settled().await;
    assert_eq!(store.cache().stores(), 0, "a record in flight was cached");
    let response = Response::new(200, "done");
    store.complete(&claim, &response, HOUR).await.unwrap();
    for _ in 0..2 {
        let outcome = store.claim(&request("one")).await.unwrap();
        assert_eq!(outcome.name(), "completed");
        store.settled().await;
    }
    let entry = store.cache().kept(claim.key()).await.expect("promoted");
    assert!(!entry.windows(7).any(|bytes| bytes == b"charged"));
    checkpoints.last_checkpoint(&claim).await.unwrap_err();
}
