//! Many callers with one key, against one claim and one replay.

use std::sync::Arc;

use idem_core::BoxError;
use idem_core::wrappers::SingleFlight;

use super::claim_fresh::IDEM;
use super::{Contenders, Group};
use crate::operations::{ClaimReplay, Crowd};
use crate::{Arena, Measured, Plan, Row, Subject};

const PATH: &str = "contended";
const CALLERS: usize = 64;
const SHARED: &str = "single flight";
const BASE: &str = "claim + replay";

/// Who takes turns: the crowd that shares its calls, the crowd of which each asks, and the two calls that it takes.
pub async fn group(arena: &Arena) -> Result<Contenders, BoxError> {
    let mut group = Contenders::new();
    let shared = Crowd {
        store: Arc::new(SingleFlight::new(arena.store())),
        callers: CALLERS,
    };
    group.push(Measured::boxed(SHARED, shared));
    let each = Crowd {
        store: arena.store(),
        callers: CALLERS,
    };
    group.push(Measured::boxed(IDEM, each));
    let alone = ClaimReplay::prepared(arena.store()).await?;
    group.push(Measured::boxed(BASE, alone));
    Ok(group)
}

pub(super) async fn measure(subject: &Subject, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let arena = subject.arena().await?;
    let heat = Group::from(group(&arena).await?)
        .race(CALLERS, plan)
        .await?;
    let on = |path| (path, subject.name());
    let mut rows = Vec::new();
    rows.extend(heat.time_row(on(PATH), SHARED, BASE));
    rows.extend(heat.time_row(on("contended_each_asks"), IDEM, BASE));
    arena.close().await?;
    Ok(rows)
}
