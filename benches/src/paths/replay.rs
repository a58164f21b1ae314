//! A claim of a completed key, against the read by primary key.

use std::sync::Arc;

use idem_core::BoxError;

use super::claim_fresh::{COALESCED, IDEM};
use super::{Contenders, Group};
use crate::ids::response;
use crate::operations::{BareSelect, Connections, Replay};
use crate::{Arena, Extras, Measured, Plan, Row, Subject, Way};

const PATH: &str = "replay";

/// How many keys are read in turns.
const KEYS: usize = 200;

/// Who takes turns.
pub async fn group(arena: &Arena) -> Result<Contenders, BoxError> {
    let mut group = Contenders::new();
    let replay = Replay::prepared(arena.store(), KEYS, response()).await?;
    if let Some(coalesced) = arena.coalesced() {
        let coalesced = replay.through(Arc::clone(&coalesced));
        group.push(Measured::boxed(COALESCED, coalesced));
    }
    group.push(Measured::boxed(IDEM, replay));
    for way in Way::ALL {
        if let Some(connections) = Connections::of(arena, way).await? {
            let body = response().body().clone();
            let select = BareSelect::prepared(connections, KEYS, body).await?;
            group.push(Measured::boxed(way.name(), select));
        }
    }
    Ok(group)
}

pub(super) async fn measure(
    subject: &Subject,
    plan: &Plan,
    extras: &Extras,
) -> Result<Vec<Row>, BoxError> {
    let arena = subject.arena().await?;
    let group = Group::from(group(&arena).await?);
    let mut rows = Vec::new();
    for &callers in plan.pick(&[1, 64, 512][..], &[1, 64]) {
        let others: Vec<_> = extras.of(subject.name(), PATH, callers).collect();
        let heat = group.race_against(&others, callers, plan).await?;
        let on = |path| (path, subject.name());
        rows.extend(heat.rows(on(PATH), IDEM, &[COALESCED]));
        rows.extend(heat.rows(on("replay_coalesced"), COALESCED, &[]));
    }
    arena.close().await?;
    Ok(rows)
}
