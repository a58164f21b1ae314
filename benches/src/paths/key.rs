//! The calls in a key's life, of the store and as bare statements.

use std::sync::Arc;

use dashmap::DashMap;
use idem_core::{BoxError, MemoryStore, Response};

use super::{HELD, IDEM, KEYS, Scene, Visit};
use crate::arena::Arena;
use crate::ids::{fresh_id, response, text};
use crate::measured::Measured;
use crate::operations::{
    Bare, BareStart, Call, Calls, ColdStart, Connections, Keys, Life, Operation,
};
use crate::{Contender, PayBox, Row};

/// Returns a contender with the operation for this part of a key's life. Replayed keys are
/// completed before.
pub(super) async fn contender<O: Operation>(
    name: &'static str,
    life: &Life,
    operation: impl Fn(Life) -> O,
) -> Result<Box<dyn Contender>, BoxError> {
    let keys = match life {
        Life::Claim | Life::Complete(_) => Keys::Fresh,
        Life::Replay => Keys::used(&operation(Life::complete()), KEYS).await?,
    };
    Ok(Measured::on(&keys, name, operation(life.clone())))
}

/// Returns the store's contender, then those of the bare statements.
async fn contenders(arena: &Arena, life: &Life) -> Result<Vec<Box<dyn Contender>>, BoxError> {
    let calls = |life| Calls(arena.store(), life);
    let mut contenders = vec![contender(IDEM, life, calls).await?];
    for (name, connections) in Connections::all(arena).await? {
        let bare = |life| Bare(connections.clone(), life);
        contenders.push(contender(name, life, bare).await?);
    }
    Ok(contenders)
}

/// Measures a claim of a fresh key against the insert.
pub(super) async fn claim_fresh(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let contenders = contenders(&visit.arena().await?, &Life::Claim).await?;
    let callers = visit.plan.pick(&[1, 8, 64, 512][..], &[1, 64, 512]);
    let scene = Scene::new("claim_fresh", callers, contenders).comparing(|heat| {
        let mut rows = heat.rows();
        if [1, 64].contains(&heat.callers) {
            rows.push(heat.p99_row("claim_fresh_p99", IDEM, HELD));
        }
        rows
    });
    visit.measure(scene).await
}

/// Measures another part of a key's life against the same of bare statements.
pub(super) async fn life(
    visit: &mut Visit<'_>,
    path: &'static str,
    callers: &'static [usize],
    life: Life,
) -> Result<(), BoxError> {
    let contenders = contenders(&visit.arena().await?, &life).await?;
    visit.measure(Scene::new(path, callers, contenders)).await
}

/// Sizes of responses, and the paths of their rows.
const SIZES: [(usize, &str); 4] = [
    (0, "payload_0"),
    (1 << 10, "payload_1KiB"),
    (64 << 10, "payload_64KiB"),
    (1 << 20, "payload_1MiB"),
];

/// Returns a body that compresses badly.
pub(super) fn body(bytes: usize) -> Vec<u8> {
    let digits = std::iter::repeat_with(|| fresh_id().into_bytes());
    digits.flatten().take(bytes).collect()
}

/// Measures the life of a key with responses of several sizes, against insert and update at their
/// best.
pub(super) async fn payload(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    for (bytes, path) in visit.plan.pick(&SIZES[..], &SIZES[1..2]) {
        let life = Life::Complete(Response::new(200, body(*bytes)));
        let mut contenders = contenders(&visit.arena().await?, &life).await?;
        contenders.retain(|contender| [IDEM, HELD].contains(&contender.name()));
        visit.measure(Scene::new(path, &[8], contenders)).await?;
        visit.close().await?;
    }
    Ok(())
}

/// A service that takes a payment under a fresh key.
struct Pays(PayBox);

impl Call for Pays {
    async fn call(&self, id: &str) -> Result<(), BoxError> {
        self.0.pay(id).await
    }
}

/// Measures a payment whose row and record commit together, against the transaction by hand and
/// against the row alone.
pub(super) async fn pay(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let Some(baseline) = arena.baseline() else {
        return Ok(());
    };
    let payers = baseline.payments(arena.namespace()).await?.into_iter();
    let contenders: Vec<_> = payers
        .map(|(name, payer)| Measured::boxed(name, Pays(payer)))
        .collect();
    if contenders.is_empty() {
        return Ok(());
    }
    let scene = Scene::new("pay", visit.plan.pick(&[1, 64][..], &[64]), contenders);
    visit.measure(scene).await
}

/// Measures opening a store and its first claim, against connecting and the first insert.
pub(super) async fn cold_start(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let mut contenders = vec![Measured::boxed(IDEM, ColdStart(arena.clone()))];
    if let Some(connections) = Connections::held(&arena).await? {
        contenders.push(Measured::boxed(HELD, BareStart(connections)));
    }
    let scene = Scene::new("cold_start", &[1], contenders);
    visit.measure(scene).await
}

const MAP: &str = "dashmap";
const MILLION: f64 = 1e6;

/// `insert`, then `get_mut`.
struct MapLife {
    map: DashMap<String, Option<Box<[u8]>>>,
    response: Box<[u8]>,
}

impl Call for MapLife {
    async fn call(&self, id: &str) -> Result<(), BoxError> {
        let id = text(id);
        self.map.insert(id.clone(), None);
        let mut entry = self.map.get_mut(&id).ok_or("no such key")?;
        *entry = Some(self.response.clone());
        Ok(())
    }
}

/// Measures the life of a key in memory against a sharded map. Only what an application boxes is
/// boxed.
pub(super) async fn memory_life(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    // Neither side starts with the keys of another number of callers.
    for callers in visit.plan.pick(&[&[1], &[2], &[64]][..], &[&[64]]) {
        let life = Calls(Arc::new(MemoryStore::new()), Life::complete());
        let map = MapLife {
            map: DashMap::new(),
            response: response().body().to_vec().into(),
        };
        let contenders = vec![Measured::boxed(IDEM, life), Measured::boxed(MAP, map)];
        let scene = Scene::new("memory_life", *callers, contenders).comparing(|heat| {
            let mut rows = heat.rows();
            if heat.callers == 64 {
                let millions = heat.compared("memory_life_rate", [IDEM, IDEM], |idem, _| {
                    Some(idem.per_second() / MILLION)
                });
                rows.push(millions.map(|row| Row {
                    baseline: "a million a second".to_owned(),
                    bare: None,
                    ..row
                }));
            }
            rows
        });
        visit.measure(scene).await?;
    }
    Ok(())
}
