//! Opening a store and its first claim, against connecting and the first insert.

use std::sync::Arc;

use idem_core::BoxError;

use super::{HELD, IDEM, Meter, Scene};
use crate::measured::Measured;
use crate::operations::{BareStart, ColdStart, Connections};
use crate::{Arena, Backend};

pub(super) async fn visit(
    backend: &Arc<dyn Backend>,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    let arena = Arena::new(backend).await?;
    let start = ColdStart {
        backend: Arc::clone(backend),
        namespace: arena.namespace().to_owned(),
    };
    let mut contenders = vec![Measured::boxed(IDEM, start)];
    if let Some(connections) = Connections::held(&arena).await? {
        contenders.push(Measured::boxed(HELD, BareStart(connections)));
    }
    let scene = Scene::new(("cold_start", backend.name(), &[1]), contenders, |heat| {
        heat.rows("cold_start", IDEM)
    });
    meter.measure(scene).await?;
    arena.close().await
}
