//! The engine, against the calls of the store that it makes.

use idem_core::BoxError;

use super::{Contenders, Group};
use crate::ids::response;
use crate::operations::{ClaimComplete, Replay, Run, RunReplayed};
use crate::{Arena, Measured, Plan, Row, Subject};

const ENGINE: &str = "engine";
const CALLS: &str = "store's own calls";

/// How many keys are replayed in turns.
const KEYS: usize = 200;

/// Who takes turns: a run of work that takes no time, and claim and completion.
pub fn fresh_group(arena: &Arena) -> Contenders {
    let life = ClaimComplete {
        store: arena.store(),
        response: response(),
    };
    vec![
        Measured::boxed(ENGINE, Run::new(arena.store(), response())),
        Measured::boxed(CALLS, life),
    ]
}

/// Who takes turns: a run of a key that has a result, and its claim.
pub async fn replayed_group(arena: &Arena) -> Result<Contenders, BoxError> {
    let replay = Replay::prepared(arena.store(), KEYS, response()).await?;
    let run = RunReplayed::new(arena.store(), response(), replay.ids());
    Ok(vec![
        Measured::boxed(ENGINE, run),
        Measured::boxed(CALLS, replay),
    ])
}

pub(super) async fn measure(subject: &Subject, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let arena = subject.arena().await?;
    let fresh = Group::from(fresh_group(&arena));
    let replayed = Group::from(replayed_group(&arena).await?);
    let mut rows = Vec::new();
    for &callers in plan.pick(&[1, 32, 64, 512][..], &[1, 64]) {
        for (path, group) in [("run_fresh", &fresh), ("run_replayed", &replayed)] {
            let heat = group.race(callers, plan).await?;
            rows.extend(heat.row((path, subject.name()), ENGINE, CALLS));
        }
    }
    arena.close().await?;
    Ok(rows)
}
