//! Opening a store and its first claim, against connecting and the first insert.

use idem_core::BoxError;

use super::{HELD, IDEM, Visit};
use crate::Arena;
use crate::measured::Measured;
use crate::operations::{BareStart, ColdStart, Connections};

pub(super) async fn visit(mut visit: Visit<'_>) -> Result<(), BoxError> {
    let arena = Arena::new(visit.backend).await?;
    let start = ColdStart {
        backend: visit.backend.clone(),
        namespace: arena.namespace().to_owned(),
    };
    let mut contenders = vec![Measured::boxed(IDEM, start)];
    if let Some(connections) = Connections::held(&arena).await? {
        contenders.push(Measured::boxed(HELD, BareStart(connections)));
    }
    visit.compare("cold_start", &[1], contenders).await?;
    arena.close().await
}
