//! The wrappers of a store: the engine, the HTTP layer, and single flight.

use std::sync::Arc;

use idem_core::wrappers::SingleFlight;
use idem_core::{BoxError, Idempotency};

use super::{IDEM, KEYS, Scene, Visit};
use crate::measured::Measured;
use crate::operations::{Calls, ClaimReplay, ConcurrentClaims, Keys, Life, Posts, Run};

const ENGINE: &str = "engine";
const CALLS: &str = "store's own calls";

/// Measures the engine against the store's calls that it makes, and against another crate.
pub(super) async fn run(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let calls = |life| Calls(arena.store(), life);
    let fresh = vec![
        Measured::boxed(ENGINE, Run::new(arena.store(), true)),
        Measured::boxed(CALLS, calls(Life::complete())),
    ];
    let keys = Keys::used(&calls(Life::complete()), KEYS).await?;
    let replayed = vec![
        Measured::on(&keys, ENGINE, Run::new(arena.store(), false)),
        Measured::on(&keys, CALLS, calls(Life::Replay)),
    ];
    let callers = visit.plan.pick(&[1, 32, 64, 512][..], &[1, 64]);
    for (path, contenders) in [("run_fresh", fresh), ("run_replayed", replayed)] {
        visit.measure(Scene::new(path, callers, contenders)).await?;
    }
    Ok(())
}

const LAYER: &str = "layer";
const ROUTE: &str = "route alone";

/// Measures an axum route behind the layer, with the memory store, against the same route without
/// it. A replay is compared with a call of the handler, which it spares.
pub(super) async fn http(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let behind_layer = || Posts::behind_layer(Idempotency::new(arena.store()));
    let keys = Keys::used(&behind_layer().await?, KEYS).await?;
    let fresh = vec![
        Measured::boxed(LAYER, behind_layer().await?),
        Measured::boxed(ROUTE, Posts::without_layer().await?),
    ];
    let replayed = vec![
        Measured::on(&keys, LAYER, behind_layer().await?.replayed()),
        Measured::on(&keys, ROUTE, Posts::without_layer().await?),
    ];
    for (path, contenders) in [("http_fresh", fresh), ("http_replayed", replayed)] {
        visit.measure(Scene::new(path, &[64], contenders)).await?;
    }
    Ok(())
}

const CALLERS: usize = 64;
const SHARED: &str = "single flight";
const BASE: &str = "claim + replay";

/// Measures many callers with one key, against one claim and one replay.
pub(super) async fn contended(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let claims = |store| ConcurrentClaims {
        store,
        callers: CALLERS,
    };
    let shared = Arc::new(SingleFlight::new(arena.store()));
    let contenders = vec![
        Measured::boxed(SHARED, claims(shared)),
        Measured::boxed(IDEM, claims(arena.store())),
        Measured::boxed(BASE, ClaimReplay::prepared(arena.store()).await?),
    ];
    let scene = Scene::new("contended", &[CALLERS], contenders).comparing(|heat| {
        vec![
            heat.time_row("contended", SHARED, BASE),
            heat.time_row("contended_each_asks", IDEM, BASE),
        ]
    });
    visit.measure(scene).await
}
