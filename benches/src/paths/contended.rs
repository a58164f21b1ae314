//! Many callers with one key, against one claim and one replay.

use std::sync::Arc;

use idem_core::BoxError;
use idem_core::wrappers::SingleFlight;

use super::{IDEM, Visit};
use crate::Arena;
use crate::measured::Measured;
use crate::operations::{ClaimReplay, Crowd};

const CALLERS: usize = 64;
const SHARED: &str = "single flight";
const BASE: &str = "claim + replay";

pub(super) async fn visit(visit: Visit<'_>) -> Result<(), BoxError> {
    let arena = Arena::new(visit.backend).await?;
    let crowd = |store| Crowd {
        store,
        callers: CALLERS,
    };
    let shared = Arc::new(SingleFlight::new(arena.store()));
    let contenders = vec![
        Measured::boxed(SHARED, crowd(shared)),
        Measured::boxed(IDEM, crowd(arena.store())),
        Measured::boxed(BASE, ClaimReplay::prepared(arena.store()).await?),
    ];
    let scene = visit.scene("contended", &[CALLERS], contenders, |heat| {
        let shared = heat.time_row("contended", SHARED, BASE);
        let each = heat.time_row("contended_each_asks", IDEM, BASE);
        shared.into_iter().chain(each).collect()
    });
    visit.meter.measure(scene).await?;
    arena.close().await
}
