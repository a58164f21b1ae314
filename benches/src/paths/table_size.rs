//! Claims of fresh keys in a table with few rows and with many.

use std::sync::Arc;

use idem_core::BoxError;

use super::{Meter, Scene};
use crate::measured::Measured;
use crate::operations::Claims;
use crate::{Arena, Backend, Plan, Rows};

/// The number of rows, the contender's name, and the path of its row.
type Size = (u64, &'static str, &'static str);

const SIZES: [Size; 4] = [
    (10_000, FEW, "table_size_1e4"),
    (100_000, "1e5 rows", "table_size_1e5"),
    (1_000_000, "1e6 rows", "table_size_1e6"),
    (10_000_000, "1e7 rows", "table_size_1e7"),
];
const FEW: &str = "1e4 rows";

pub(super) async fn visit(
    backend: &Arc<dyn Backend>,
    plan: &Plan,
    meter: &mut dyn Meter,
) -> Result<(), BoxError> {
    let (mut arenas, mut contenders) = (Vec::new(), Vec::new());
    let sizes = plan.pick(&[SIZES[0], SIZES[2], SIZES[3]][..], &SIZES[..2]);
    for (rows, name, _) in sizes
        .iter()
        .filter(|(rows, ..)| *rows <= backend.most_rows())
    {
        let arena = Arena::new(backend).await?;
        let namespace = arena.namespace();
        backend.fill(namespace, *rows, Rows::Completed).await?;
        contenders.push(Measured::boxed(*name, Claims::fresh(arena.store())));
        arenas.push(arena);
    }
    if arenas.is_empty() {
        return Ok(());
    }
    let scene = Scene::new(("table_size", backend.name(), &[8]), contenders, |heat| {
        let many = SIZES.iter().skip(1);
        let rows = many.filter_map(|(_, name, path)| heat.row(path, name, FEW));
        rows.collect()
    });
    meter.measure(scene).await?;
    for arena in arenas {
        arena.close().await?;
    }
    Ok(())
}
