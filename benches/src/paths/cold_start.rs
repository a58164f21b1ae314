//! Connecting, and the first claim, against connecting and the first insert.

use std::sync::Arc;

use idem_core::BoxError;

use super::claim_fresh::IDEM;
use super::{Contenders, Group};
use crate::operations::{BareStart, ColdStart, Connections};
use crate::{Arena, Measured, Plan, Row, Subject, Way};

const PATH: &str = "cold_start";

/// Who takes turns.
pub async fn group(arena: &Arena) -> Result<Contenders, BoxError> {
    let mut group = Contenders::new();
    let start = ColdStart {
        harness: Arc::clone(arena.subject().harness()),
        namespace: arena.namespace().to_owned(),
    };
    group.push(Measured::boxed(IDEM, start));
    if let Some(connections) = Connections::of(arena, Way::Held).await? {
        let start = BareStart(connections);
        group.push(Measured::boxed(Way::Held.name(), start));
    }
    Ok(group)
}

pub(super) async fn measure(subject: &Subject, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let arena = subject.arena().await?;
    let heat = Group::from(group(&arena).await?).race(1, plan).await?;
    let rows = heat.rows((PATH, subject.name()), IDEM, &[]);
    arena.close().await?;
    Ok(rows)
}
