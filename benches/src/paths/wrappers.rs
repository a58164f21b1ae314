//! What is around a store: the engine, protection, and callers of one key.

use std::sync::Arc;

use idem_core::wrappers::Protected;
use idem_core::wrappers::protected::{DataKey, KeyRing, Peppers};
use idem_core::{BoxError, Response};

use super::key::body;
use super::{IDEM, KEYS, Scene, Visit};
use crate::measured::Measured;
use crate::operations::{Calls, ClaimReplay, ConcurrentClaims, Keys, Life, Run};

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

const PROTECTED: &str = "protected";
const PEPPERED: &str = "with peppers";

/// Measures a store with encrypted results of 1 KiB, and one with fingerprints under a pepper, too,
/// against the store alone.
pub(super) async fn protected(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let ring = Arc::new(KeyRing::new(DataKey::new("bench", &[7; 32])?));
    let protected = || Protected::new(arena.store()).with_keys(Arc::clone(&ring));
    let peppered = Arc::new(protected().with_peppers(Peppers::new([9; 32])?));
    let protected = Arc::new(protected());
    let life = Life::Complete(Response::new(200, body(1 << 10)));
    let sealed = |life| Calls(Arc::clone(&protected), life);
    let hidden = |life| Calls(Arc::clone(&peppered), life);
    let plain = |life| Calls(arena.store(), life);
    let complete = vec![
        Measured::boxed(PROTECTED, sealed(life.clone())),
        Measured::boxed(PEPPERED, hidden(life.clone())),
        Measured::boxed(IDEM, plain(life.clone())),
    ];
    let sealed_keys = Keys::used(&sealed(life.clone()), KEYS).await?;
    let hidden_keys = Keys::used(&hidden(life.clone()), KEYS).await?;
    let plain_keys = Keys::used(&plain(life), KEYS).await?;
    let replay = vec![
        Measured::on(&sealed_keys, PROTECTED, sealed(Life::Replay)),
        Measured::on(&hidden_keys, PEPPERED, hidden(Life::Replay)),
        Measured::on(&plain_keys, IDEM, plain(Life::Replay)),
    ];
    for (path, contenders) in [
        ("protected_complete", complete),
        ("protected_replay", replay),
    ] {
        visit.measure(Scene::new(path, &[64], contenders)).await?;
    }
    Ok(())
}

const CALLERS: usize = 64;
const BASE: &str = "claim + replay";

/// Measures many callers with one key, against one claim and one replay.
pub(super) async fn contended(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let claims = ConcurrentClaims {
        store: arena.store(),
        callers: CALLERS,
    };
    let contenders = vec![
        Measured::boxed(IDEM, claims),
        Measured::boxed(BASE, ClaimReplay::prepared(arena.store()).await?),
    ];
    let scene = Scene::new("contended", &[CALLERS], contenders)
        .comparing(|heat| vec![heat.time_row("contended", IDEM, BASE)]);
    visit.measure(scene).await
}
