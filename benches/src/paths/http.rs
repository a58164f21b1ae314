//! An axum route behind the layer, with the memory store, against the same route without it.

use idem_core::{BoxError, Idempotency};

use super::{KEYS, Visit};
use crate::Arena;
use crate::measured::Measured;
use crate::operations::{Keys, Posts};

const LAYER: &str = "layer";
const ROUTE: &str = "route alone";

/// A replay is compared with a call of the handler, which it spares.
pub(super) async fn visit(mut visit: Visit<'_>) -> Result<(), BoxError> {
    let arena = Arena::new(visit.backend).await?;
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
        visit.compare(path, &[64], contenders).await?;
    }
    arena.close().await
}
