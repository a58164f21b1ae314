//! The life of a key: claim and response, against insert and update.

use idem_core::{BoxError, Response};

use super::claim_fresh::{COALESCED, IDEM};
use super::{Contenders, Group};
use crate::ids::response;
use crate::operations::{BareLife, ClaimComplete, Connections};
use crate::{Arena, Extras, Measured, Plan, Row, Subject, Way};

const PATH: &str = "claim_complete";

/// Who takes turns.
pub async fn group(arena: &Arena, response: &Response) -> Result<Contenders, BoxError> {
    let mut group = Contenders::new();
    let life = |store| ClaimComplete {
        store,
        response: response.clone(),
    };
    group.push(Measured::boxed(IDEM, life(arena.store())));
    if let Some(coalesced) = arena.coalesced() {
        group.push(Measured::boxed(COALESCED, life(coalesced)));
    }
    for way in Way::ALL {
        if let Some(connections) = Connections::of(arena, way).await? {
            let response = response.body().clone();
            let life = BareLife {
                connections,
                response,
            };
            group.push(Measured::boxed(way.name(), life));
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
    let group = Group::from(group(&arena, &response()).await?);
    let mut rows = Vec::new();
    for &callers in plan.pick(&[64, 512][..], &[64]) {
        let others: Vec<_> = extras.of(subject.name(), PATH, callers).collect();
        let heat = group.race_against(&others, callers, plan).await?;
        let on = |path| (path, subject.name());
        rows.extend(heat.rows(on(PATH), IDEM, &[COALESCED]));
        rows.extend(heat.rows(on("claim_complete_coalesced"), COALESCED, &[]));
    }
    arena.close().await?;
    Ok(rows)
}
