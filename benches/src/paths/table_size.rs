//! Claims of fresh keys in a table with few rows and with many.

use idem_core::BoxError;

use super::Visit;
use crate::measured::Measured;
use crate::operations::Claims;
use crate::{Arena, Rows};

/// The number of rows, the contender's name, and the path of its row.
type Size = (u64, &'static str, &'static str);

const SIZES: [Size; 4] = [
    (10_000, FEW, "table_size_1e4"),
    (100_000, "1e5 rows", "table_size_1e5"),
    (1_000_000, "1e6 rows", "table_size_1e6"),
    (10_000_000, "1e7 rows", "table_size_1e7"),
];
const FEW: &str = "1e4 rows";

pub(super) async fn visit(visit: Visit<'_>) -> Result<(), BoxError> {
    let (mut arenas, mut contenders) = (Vec::new(), Vec::new());
    let sizes = visit
        .plan
        .pick(&[SIZES[0], SIZES[2], SIZES[3]][..], &SIZES[..2]);
    for (rows, name, _) in sizes
        .iter()
        .filter(|(rows, ..)| *rows <= visit.backend.most_rows())
    {
        let arena = Arena::new(visit.backend).await?;
        let namespace = arena.namespace();
        visit
            .backend
            .fill(namespace, *rows, Rows::Completed)
            .await?;
        contenders.push(Measured::boxed(*name, Claims::fresh(arena.store())));
        arenas.push(arena);
    }
    if arenas.is_empty() {
        return Ok(());
    }
    let scene = visit.scene("table_size", &[8], contenders, |heat| {
        let many = SIZES.iter().skip(1);
        let rows = many.filter_map(|(_, name, path)| heat.row(path, name, FEW));
        rows.collect()
    });
    visit.meter.measure(scene).await?;
    for arena in arenas {
        arena.close().await?;
    }
    Ok(())
}
