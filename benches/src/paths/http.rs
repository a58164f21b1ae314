//! An axum route behind the layer, with the memory store, against the same route without it.

use std::sync::Arc;

use idem_core::{BoxError, Idempotency};

use super::{KEYS, Meter, Scene};
use crate::measured::Measured;
use crate::operations::{Keys, Posts};
use crate::{Arena, Backend};

const LAYER: &str = "layer";
const ROUTE: &str = "route alone";

/// A replay is compared with a call of the handler, which it spares.
pub(super) async fn visit(
    backend: &Arc<dyn Backend>,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    if backend.name() != "memory" {
        return Ok(());
    }
    let arena = Arena::new(backend).await?;
    let engine = || Idempotency::new(arena.store());
    let keys = Keys::used(&Posts::behind_layer(engine()).await?, KEYS).await?;
    let fresh = vec![
        Measured::boxed(LAYER, Posts::behind_layer(engine()).await?),
        Measured::boxed(ROUTE, Posts::without_layer().await?),
    ];
    let replays = Posts::behind_layer(engine()).await?.replayed();
    let replayed = vec![
        Measured::on(&keys, LAYER, replays),
        Measured::on(&keys, ROUTE, Posts::without_layer().await?),
    ];
    for (path, contenders) in [("http_fresh", fresh), ("http_replayed", replayed)] {
        let scene = Scene::new((path, backend.name(), &[64]), contenders, |heat| {
            heat.rows(heat.path, LAYER)
        });
        meter.measure(scene).await?;
    }
    arena.close().await
}
