//! A cache in front of a database: when it has the answer, when it has none, and when it is down.

use std::sync::Arc;

use idem_core::{BatchStore, BoxError};
use idem_hybrid::{HybridStore, RedisCache, idem_redis};

use super::{HELD, IDEM, KEYS, Scene, Visit, key};
use crate::arena::Arena;
use crate::backends;
use crate::measured::Measured;
use crate::operations::{Bare, Calls, Connections, Keys, Life};

const ALONE: &str = "database alone";

/// The server of the cache.
const CACHE: &str = "redis";

/// An address without a listener.
const NOWHERE: &str = "redis://127.0.0.1:1";

/// A store with its cache's metrics.
type Store = HybridStore<RedisCache, Arc<dyn BatchStore>>;

/// Opens the namespace of a database, with a cache at this URL in front.
async fn behind(cache: &str, arena: &Arena) -> Result<Arc<Store>, BoxError> {
    let config = idem_redis::Config::new();
    let cache = RedisCache::new(cache, arena.namespace(), &config)?;
    let database = arena.batch_store().await?;
    Ok(Arc::new(HybridStore::new(cache, database)))
}

pub(super) async fn visit(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let Some(cache) = idem_servers::url_for(CACHE) else {
        return Ok(());
    };
    hits(visit, &cache).await?;
    misses(visit, "hybrid_miss", &cache).await?;
    misses(visit, "hybrid_cache_down", NOWHERE).await
}

/// Measures replays from the cache, and the plain read of it.
async fn hits(visit: &mut Visit<'_>, cache: &str) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let store = behind(cache, &arena).await?;
    let keys = Keys::used(&Calls(arena.another().await?, Life::complete()), KEYS).await?;
    for _ in 0..2 {
        let replay = Calls(Arc::clone(&store), Life::Replay);
        keys.once_each(&replay).await?;
        store.settled().await;
    }
    let hits = store.metrics().hits;
    if hits < KEYS as u64 {
        return Err(format!("{hits} of {KEYS} keys are in the cache").into());
    }
    let mut contenders = vec![Measured::on(&keys, IDEM, Calls(store, Life::Replay))];
    let bare = backends::backend(CACHE).ok_or("the cache is missing")?;
    if let Some(connections) = Connections::held(&visit.arena_of(&bare).await?).await? {
        let bare = |life| Bare(connections.clone(), life);
        contenders.push(key::contender(HELD, &Life::Replay, bare).await?);
    }
    let callers = visit.plan.pick(&[1, 64, 512][..], &[64]);
    let scene = Scene::new("hybrid_hit", callers, contenders);
    visit.measure(scene).await
}

/// Measures claims of fresh keys through the cache, and of the database alone.
async fn misses(visit: &mut Visit<'_>, path: &'static str, cache: &str) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let store = behind(cache, &arena).await?;
    let contenders = vec![
        Measured::boxed(IDEM, Calls(store, Life::Claim)),
        Measured::boxed(ALONE, Calls(arena.store(), Life::Claim)),
    ];
    let callers = visit.plan.pick(&[1, 64][..], &[64]);
    visit.measure(Scene::new(path, callers, contenders)).await
}
