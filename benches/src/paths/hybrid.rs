//! A cache in front of a database: when it has the answer, when it has none, and when it is down.

use std::sync::Arc;

use idem_core::BoxError;

use super::key::bare_select;
use super::{HELD, IDEM, KEYS, Visit};
use crate::backends::{self, Hybrid};
use crate::measured::Measured;
use crate::operations::{Claims, Connections, Keys, Replay};
use crate::{Arena, Backend};

pub(super) const NAME: &str = "hybrid";
const ALONE: &str = "database alone";

pub(super) async fn visit(mut visit: Visit<'_>) -> Result<(), BoxError> {
    let (Some(hybrid), Some(cache)) = (backends::hybrid(), backends::backend("redis")) else {
        return Ok(());
    };
    hits(&mut visit, &hybrid, &cache).await?;
    misses(&mut visit, "hybrid_miss", &hybrid).await?;
    misses(&mut visit, "hybrid_cache_down", &hybrid.down()).await
}

/// Measures replays from the cache, and the plain read of it.
async fn hits(visit: &mut Visit<'_>, hybrid: &Hybrid, cache: &Backend) -> Result<(), BoxError> {
    let arena = Arena::new(hybrid.database()).await?;
    let cache = Arena::new(cache).await?;
    let store = hybrid.store(arena.namespace()).await?;
    let keys = Keys::used(&Claims::completed(arena.another().await?), KEYS).await?;
    for _ in 0..2 {
        keys.once_each(&Replay(Arc::clone(&store))).await?;
        store.settled().await;
    }
    let hits = store.metrics().hits;
    if hits < KEYS as u64 {
        return Err(format!("{hits} of {KEYS} keys are in the cache").into());
    }
    let mut contenders = vec![Measured::on(&keys, IDEM, Replay(store))];
    if let Some(connections) = Connections::held(&cache).await? {
        contenders.push(bare_select(HELD, connections).await?);
    }
    let callers = visit.plan.pick(&[1, 64, 512][..], &[64]);
    visit.compare("hybrid_hit", callers, contenders).await?;
    cache.close().await?;
    arena.close().await
}

/// Measures claims of fresh keys through the cache, and of the database alone.
async fn misses(
    visit: &mut Visit<'_>,
    path: &'static str,
    hybrid: &Hybrid,
) -> Result<(), BoxError> {
    let arena = Arena::new(hybrid.database()).await?;
    let store = hybrid.store(arena.namespace()).await?;
    let contenders = vec![
        Measured::boxed(IDEM, Claims::fresh(store)),
        Measured::boxed(ALONE, Claims::fresh(arena.store())),
    ];
    let callers = visit.plan.pick(&[1, 64][..], &[64]);
    visit.compare(path, callers, contenders).await?;
    arena.close().await
}
