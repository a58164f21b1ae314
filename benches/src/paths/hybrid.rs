//! A cache in front of a database: when it has the answer, when it has none, and when it is down.

use std::sync::Arc;

use idem_core::BoxError;

use super::key::bare_select;
use super::{HELD, IDEM, KEYS, Meter, Scene};
use crate::backends::{self, Hybrid};
use crate::measured::Measured;
use crate::operations::{Claims, Connections, Keys, Replay};
use crate::{Arena, Backend, Plan};

pub(super) const NAME: &str = "hybrid";
const ALONE: &str = "database alone";

pub(super) async fn visit(
    backend: &Arc<dyn Backend>,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    if backend.name() != NAME {
        return Ok(());
    }
    let (Some(hybrid), Some(cache)) = (backends::hybrid(), backends::backend("redis")) else {
        return Ok(());
    };
    hits(&hybrid, &cache, plan, meter).await?;
    misses("hybrid_miss", &hybrid, plan, meter).await?;
    misses("hybrid_cache_down", &hybrid.down(), plan, meter).await
}

/// Measures replays from the cache, and the plain read of it.
async fn hits(
    hybrid: &Hybrid,
    cache: &Arc<dyn Backend>,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    let arena = Arena::new(hybrid.database()).await?;
    let cache = Arena::new(cache).await?;
    let store = hybrid.store(arena.namespace()).await?;
    let database = arena.batch().await?.ok_or("no batches")?;
    let keys = Keys::used(&Claims::completed(database), KEYS).await?;
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
    let callers = plan.pick(&[1, 64, 512][..], &[64]);
    let scene = Scene::new(("hybrid_hit", NAME, callers), contenders, |heat| {
        heat.rows("hybrid_hit", IDEM)
    });
    meter.measure(scene).await?;
    cache.close().await?;
    arena.close().await
}

/// Measures claims of fresh keys through the cache, and of the database alone.
async fn misses(
    path: &'static str,
    hybrid: &Hybrid,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    let arena = Arena::new(hybrid.database()).await?;
    let store = hybrid.store(arena.namespace()).await?;
    let contenders = vec![
        Measured::boxed(IDEM, Claims::fresh(store)),
        Measured::boxed(ALONE, Claims::fresh(arena.store())),
    ];
    let callers = plan.pick(&[1, 64][..], &[64]);
    let scene = Scene::new((path, NAME, callers), contenders, |heat| {
        heat.rows(heat.path, IDEM)
    });
    meter.measure(scene).await?;
    arena.close().await
}
