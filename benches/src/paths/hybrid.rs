//! A cache in front of a database: when it has the answer, when it has none, when it is down.

use std::sync::Arc;

use idem_core::{BoxError, IdempotencyStore};

use super::claim_fresh::IDEM;
use super::{Contenders, Group};
use crate::backends::{self, Hybrid};
use crate::ids::response;
use crate::operations::{BareSelect, ClaimFresh, Connections, Replay};
use crate::{Arena, Measured, Plan, Row, Subject, Way};

const NAME: &str = "hybrid";
const KEYS: usize = 200;
const ALONE: &str = "database alone";

/// Replays from the cache, and the plain read of it.
pub async fn hit_group(hybrid: &Hybrid, up: &Arena, cache: &Arena) -> Result<Contenders, BoxError> {
    let store = hybrid.store(up.namespace()).await?;
    let database = up.batch().ok_or("no batches")?;
    let replay = Replay::prepared(database, KEYS, response()).await?;
    let replay = replay.through(Arc::clone(&store));
    for _ in 0..2 {
        replay.once_each().await?;
        store.settled().await;
    }
    let hits = store.metrics().hits;
    if hits < KEYS as u64 {
        return Err(format!("{hits} of {KEYS} keys are in the cache").into());
    }
    let mut group = Contenders::new();
    group.push(Measured::boxed(IDEM, replay));
    if let Some(connections) = Connections::of(cache, Way::Held).await? {
        let body = response().body().clone();
        let select = BareSelect::prepared(connections, KEYS, body).await?;
        group.push(Measured::boxed(Way::Held.name(), select));
    }
    Ok(group)
}

/// Claims of fresh keys through the cache, and of the database alone.
pub fn miss_group(store: Arc<dyn IdempotencyStore>, database: &Arena) -> Contenders {
    vec![
        Measured::boxed(IDEM, ClaimFresh(store)),
        Measured::boxed(ALONE, ClaimFresh(database.store())),
    ]
}

async fn hits(hybrid: &Hybrid, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let up = hybrid.database().arena().await?;
    let Some(cache) = backends::subject("redis") else {
        return Ok(Vec::new());
    };
    let cache = cache.arena().await?;
    let group = Group::from(hit_group(hybrid, &up, &cache).await?);
    let mut rows = Vec::new();
    for &callers in plan.pick(&[1, 64, 512][..], &[64]) {
        let heat = group.race(callers, plan).await?;
        rows.extend(heat.rows(("hybrid_hit", NAME), IDEM, &[]));
    }
    cache.close().await?;
    up.close().await?;
    Ok(rows)
}

async fn misses(hybrid: &Hybrid, path: &str, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let database = hybrid.database().arena().await?;
    let mut rows = Vec::new();
    for &callers in plan.pick(&[1, 64][..], &[64]) {
        let store = hybrid.store(database.namespace()).await?;
        let group = miss_group(store, &database);
        let heat = Group::from(group).race(callers, plan).await?;
        rows.extend(heat.rows((path, NAME), IDEM, &[]));
    }
    database.close().await?;
    Ok(rows)
}

pub(super) async fn measure(subject: &Subject, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let hybrid = match subject.name() {
        NAME => backends::hybrid(),
        _ => None,
    };
    let Some(hybrid) = hybrid else {
        return Ok(Vec::new());
    };
    let mut rows = hits(&hybrid, plan).await?;
    rows.extend(misses(&hybrid, "hybrid_miss", plan).await?);
    rows.extend(misses(&hybrid.down(), "hybrid_cache_down", plan).await?);
    Ok(rows)
}
