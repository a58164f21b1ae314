//! A claim of a key that nobody has claimed, alone and coalesced, against the insert.

use idem_core::BoxError;

use super::{Contenders, Group};
use crate::operations::{BareInsert, ClaimFresh, Connections};
use crate::{Arena, Extras, Measured, Plan, Row, Subject, Way};

pub(super) const IDEM: &str = "idem";
pub(super) const COALESCED: &str = "coalesced";
const PATH: &str = "claim_fresh";

/// Who takes turns: the store, the store coalesced where it has batches, and the insert in both ways.
pub async fn group(arena: &Arena) -> Result<Contenders, BoxError> {
    let mut group = Contenders::new();
    group.push(Measured::boxed(IDEM, ClaimFresh(arena.store())));
    if let Some(coalesced) = arena.coalesced() {
        group.push(Measured::boxed(COALESCED, ClaimFresh(coalesced)));
    }
    for way in Way::ALL {
        if let Some(connections) = Connections::of(arena, way).await? {
            group.push(Measured::boxed(way.name(), BareInsert(connections)));
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
    for &callers in plan.pick(&[1, 8, 64, 512][..], &[1, 64, 512]) {
        let others: Vec<_> = extras.of(subject.name(), PATH, callers).collect();
        let heat = group.race_against(&others, callers, plan).await?;
        let on = |path| (path, subject.name());
        rows.extend(heat.rows(on(PATH), IDEM, &[COALESCED]));
        rows.extend(heat.rows(on("claim_fresh_coalesced"), COALESCED, &[]));
        if callers == 1 {
            let held = Way::Held.name();
            rows.extend(heat.p99_row(on("claim_fresh_coalesced_p99"), COALESCED, held));
        }
    }
    arena.close().await?;
    Ok(rows)
}
