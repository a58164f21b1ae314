//! The engine against the store's calls that it makes, and against another crate.

use idem_core::BoxError;

use super::{KEYS, Visit};
use crate::Arena;
use crate::measured::Measured;
use crate::operations::{Claims, Keys, Replay, Run};

const ENGINE: &str = "engine";
const CALLS: &str = "store's own calls";

pub(super) async fn visit(mut visit: Visit<'_>) -> Result<(), BoxError> {
    let arena = Arena::new(visit.backend).await?;
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
    let callers = visit.plan.pick(&[1, 32, 64, 512][..], &[1, 64]);
    for (path, contenders) in [("run_fresh", fresh), ("run_replayed", replayed)] {
        visit.compare(path, callers, contenders).await?;
    }
    arena.close().await
}
