//! The engine against the store's calls that it makes, and against another crate.

use std::sync::Arc;

use idem_core::BoxError;

use super::{KEYS, Meter, Scene};
use crate::measured::Measured;
use crate::operations::{Claims, Keys, Replay, Run};
use crate::{Arena, Backend, Plan};

const ENGINE: &str = "engine";
const CALLS: &str = "store's own calls";

pub(super) async fn visit(
    backend: &Arc<dyn Backend>,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    let arena = Arena::new(backend).await?;
    let completed = || Claims::completed(arena.store());
    let fresh = vec![
        Measured::boxed(ENGINE, Run::new(arena.store(), true)),
        Measured::boxed(CALLS, completed()),
    ];
    let keys = Keys::used(&completed(), KEYS).await?;
    let replayed = vec![
        Measured::on(&keys, ENGINE, Run::new(arena.store(), false)),
        Measured::on(&keys, CALLS, Replay(arena.store())),
    ];
    let callers = plan.pick(&[1, 32, 64, 512][..], &[1, 64]);
    for (path, contenders) in [("run_fresh", fresh), ("run_replayed", replayed)] {
        let scene = Scene::new((path, backend.name(), callers), contenders, |heat| {
            heat.rows(heat.path, ENGINE)
        });
        meter.measure(scene).await?;
    }
    arena.close().await
}
