//! The contract of [`RedisCache`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_conformance::{Case, CaseError, CaseResult, Context};
use idem_core::{Effect, ErrorKind, Key};
use idem_redis::{Config, RedisCache, redis};
use tokio::task::JoinSet;

use super::{HOUR, case};
use crate::support;

pub(super) const AN_ENTRY_IS_THERE_UNTIL_ITS_LIFETIME_ENDS: Case =
    case(8, "an_entry_is_there_until_its_lifetime_ends", |cx| {
        Box::pin(an_entry_is_there_until_its_lifetime_ends(cx))
    });
pub(super) const A_LATE_STORE_BRINGS_NOTHING_BACK: Case =
    case(5, "a_late_store_brings_nothing_back", |cx| {
        Box::pin(a_late_store_brings_nothing_back(cx))
    });
pub(super) const A_TICKET_IS_VOID_WHEN_ITS_EPOCH_IS_LOST: Case =
    case(5, "a_ticket_is_void_when_its_epoch_is_lost", |cx| {
        Box::pin(a_ticket_is_void_when_its_epoch_is_lost(cx))
    });
pub(super) const CACHES_OF_ONE_NAMESPACE_ARE_ONE_AND_OTHERS_ARE_APART: Case = case(
    10,
    "caches_of_one_namespace_are_one_and_others_are_apart",
    |cx| Box::pin(caches_of_one_namespace_are_one_and_others_are_apart(cx)),
);
pub(super) const NO_RACE_LEAVES_AN_OLD_ENTRY: Case = case(5, "no_race_leaves_an_old_entry", |cx| {
    Box::pin(no_race_leaves_an_old_entry(cx))
});
pub(super) const GARBAGE_IN_A_CACHE_IS_NO_HIT: Case =
    case(14, "garbage_in_a_cache_is_no_hit", |cx| {
        Box::pin(garbage_in_a_cache_is_no_hit(cx))
    });
pub(super) const A_CACHE_THAT_IS_DOWN_IS_FOUND_OUT_AT_FIRST_USE: Case =
    case(14, "a_cache_that_is_down_is_found_out_at_first_use", |cx| {
        Box::pin(a_cache_that_is_down_is_found_out_at_first_use(cx))
    });

fn cache(cx: &Context) -> CaseResult<RedisCache> {
    Ok(support::harness(cx)?.cache(cx.namespace())?)
}

/// Stores it with a fresh ticket.
async fn put(cache: &RedisCache, key: &Key, entry: &[u8], lifetime: Duration) -> CaseResult<bool> {
    let ticket = cache.read(key).await?.ticket;
    Ok(cache.store(key, &ticket, entry, lifetime).await?)
}

async fn entry(cache: &RedisCache, key: &Key) -> CaseResult<Option<Vec<u8>>> {
    let hit = cache.read(key).await?.hit;
    Ok(hit.map(|hit| hit.entry.to_vec()))
}

async fn an_entry_is_there_until_its_lifetime_ends(cx: &Context) -> CaseResult {
    let (cache, key) = (cache(cx)?, cx.key("one"));
    let bytes: Vec<u8> = (0..=255).collect();
    let ticket = cache.read(&key).await?.ticket;
    assert!(cache.store(&key, &ticket, &bytes, HOUR).await?);
    let first = cache.read(&key).await?.hit.expect("stored");
    assert_eq!(first.entry, bytes);
    let whole = first.age + first.remaining;
    assert_eq!(whole, HOUR, "the lifetime counts from the ticket");
    let second = cache.read(&key).await?.hit.expect("stored");
    assert!(second.age > first.age && second.remaining < first.remaining);
    // A ticket is good for more than one store; it ends when the ticket's age says so.
    assert!(cache.store(&key, &ticket, b"", HOUR).await?);
    assert_eq!(entry(&cache, &key).await?, Some(Vec::new()));
    assert!(cache.store(&key, &ticket, b"old", Duration::ZERO).await?);
    assert_eq!(entry(&cache, &key).await?, None, "its time was over");
    assert!(put(&cache, &key, b"short", cx.short()).await?);
    while let Some(hit) = cache.read(&key).await?.hit {
        assert!(hit.remaining <= cx.short() && hit.age <= cx.short());
    }
    Ok(())
}

async fn a_late_store_brings_nothing_back(cx: &Context) -> CaseResult {
    let (cache, other, key) = (cache(cx)?, cache(cx)?, cx.key("one"));
    let late = cache.read(&key).await?.ticket;
    other.invalidate(&key).await?;
    assert!(!cache.store(&key, &late, b"old", HOUR).await?);
    assert_eq!(entry(&cache, &key).await?, None);
    assert!(put(&cache, &key, b"new", HOUR).await?);
    assert!(!cache.store(&key, &late, b"old", HOUR).await?);
    assert_eq!(entry(&cache, &key).await?, Some(b"new".to_vec()));
    let late = cache.read(&key).await?.ticket;
    other.invalidate(&key).await?;
    assert_eq!(entry(&cache, &key).await?, None, "invalidated");
    other.invalidate(&key).await?;
    assert!(!cache.store(&key, &late, b"new", HOUR).await?);
    assert_eq!(entry(&cache, &key).await?, None);
    Ok(())
}

async fn a_ticket_is_void_when_its_epoch_is_lost(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let (cache, key) = (cache(cx)?, cx.key("one"));
    assert!(put(&cache, &key, b"entry", HOUR).await?);
    let ticket = cache.read(&key).await?.ticket;
    for name in harness.keys(cx.namespace()).await? {
        if name.windows(3).any(|part| part == b":e:") {
            harness.query::<()>(redis::cmd("DEL").arg(name)).await?;
        }
    }
    assert!(!cache.store(&key, &ticket, b"late", HOUR).await?);
    assert_eq!(entry(&cache, &key).await?, Some(b"entry".to_vec()));
    assert!(!cache.store(&key, &ticket, b"late", HOUR).await?);
    assert!(put(&cache, &key, b"new", HOUR).await?);
    Ok(())
}

async fn caches_of_one_namespace_are_one_and_others_are_apart(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let (one, same) = (cache(cx)?, cache(cx)?);
    let other = harness.cache(&format!("{}.c", cx.namespace()))?;
    let keys: Vec<_> = (0..600).map(|number| cx.key(format!("{number}"))).collect();
    for key in &keys {
        assert!(put(&one, key, key.id().as_bytes(), HOUR).await?);
    }
    for key in &keys {
        let found = entry(&same, key).await?;
        assert_eq!(found.as_deref(), Some(key.id().as_bytes()));
        assert_eq!(entry(&other, key).await?, None);
    }
    other.invalidate(&keys[0]).await?;
    assert!(entry(&same, &keys[0]).await?.is_some());
    same.invalidate(&keys[0]).await?;
    assert_eq!(entry(&one, &keys[0]).await?, None);
    for key in &keys[1..] {
        assert!(entry(&one, key).await?.is_some(), "of the same bucket");
    }
    Ok(())
}

/// The source is a number that grows. A writer that changes it invalidates; a reader that misses
/// reads and stores it. After the invalidation of the last change, no reader may find an older
/// number.
async fn no_race_leaves_an_old_entry(cx: &Context) -> CaseResult {
    let (key, source) = (cx.key("one"), Arc::new(AtomicU64::new(0)));
    let mut readers = JoinSet::new();
    for _ in 0..8 {
        let (cache, key, source) = (cache(cx)?, key.clone(), Arc::clone(&source));
        readers.spawn(async move {
            while source.load(Ordering::SeqCst) < 200 {
                let read = cache.read(&key).await?;
                let number = source.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                if read.hit.is_none() {
                    let entry = number.to_be_bytes();
                    cache.store(&key, &read.ticket, &entry, HOUR).await?;
                }
            }
            Ok::<_, CaseError>(())
        });
    }
    let cache = cache(cx)?;
    for number in 1..=200_u64 {
        source.store(number, Ordering::SeqCst);
        cache.invalidate(&key).await?;
        if let Some(found) = entry(&cache, &key).await? {
            assert_eq!(found, number.to_be_bytes(), "an older number");
        }
    }
    for reader in readers.join_all().await {
        reader?;
    }
    let last = entry(&cache, &key).await?;
    assert!(last.is_none_or(|last| last == 200_u64.to_be_bytes()));
    Ok(())
}

async fn garbage_in_a_cache_is_no_hit(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let (cache, key) = (cache(cx)?, cx.key("one"));
    assert!(put(&cache, &key, b"entry", HOUR).await?);
    for name in harness.keys(cx.namespace()).await? {
        if name.windows(3).any(|part| part == b":c:") {
            let mut set = redis::cmd("SET");
            set.arg(name).arg("short").arg("EX").arg(600);
            harness.query::<()>(&set).await?;
        }
    }
    assert_eq!(entry(&cache, &key).await?, None, "it is none of ours");
    assert!(put(&cache, &key, b"new", HOUR).await?);
    assert_eq!(entry(&cache, &key).await?, Some(b"new".to_vec()));
    Ok(())
}

async fn a_cache_that_is_down_is_found_out_at_first_use(cx: &Context) -> CaseResult {
    let cache = RedisCache::new("redis://127.0.0.1:1", cx.namespace(), &Config::new())?;
    let error = cache.read(&cx.key("one")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(
        (error.effect(), error.backend()),
        (Effect::None, "redis cache")
    );
    let error = cache.invalidate(&cx.key("one")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for (url, namespace) in [
        ("redis://127.0.0.1:1", "a:b"),
        ("http://x", "a"),
        ("redis://", ""),
    ] {
        let error = RedisCache::new(url, namespace, &Config::new()).unwrap_err();
        let kinds = [ErrorKind::InvalidInput, ErrorKind::Misconfigured];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    Ok(())
}
