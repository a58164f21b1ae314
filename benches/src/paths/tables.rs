//! Claims in tables with many rows, and against loading rows in bulk.

use std::time::Instant;

use async_trait::async_trait;
use idem_core::BoxError;

use super::{HOUR, IDEM, Scene, Visit};
use crate::arena::Arena;
use crate::ids::fresh_id;
use crate::measured::Measured;
use crate::operations::{Calls, Life};
use crate::{Contender, Length, Round};

/// The number of rows, the contender's name, and the path of its row.
type Size = (u64, &'static str, &'static str);

const SIZES: [Size; 4] = [
    (10_000, FEW, "table_size_1e4"),
    (100_000, "1e5 rows", "table_size_1e5"),
    (1_000_000, "1e6 rows", "table_size_1e6"),
    (10_000_000, "1e7 rows", "table_size_1e7"),
];
const FEW: &str = "1e4 rows";

/// Measures claims of fresh keys in a table with few rows and with many.
pub(super) async fn table_size(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let full = &[SIZES[0], SIZES[2], SIZES[3]];
    let sizes = visit.plan.pick(&full[..], &SIZES[..2]).iter();
    let most = visit.backend.most_rows();
    let mut contenders = Vec::new();
    for (rows, name, _) in sizes.filter(|(rows, ..)| *rows <= most) {
        let arena = visit.arena().await?;
        arena.fill(*rows, 24 * HOUR).await?;
        contenders.push(Measured::boxed(name, Calls(arena.store(), Life::Claim)));
    }
    if contenders.is_empty() {
        return Ok(());
    }
    let scene = Scene::new("table_size", &[8], contenders).comparing(|heat| {
        let many = SIZES.iter().skip(1);
        let rows = many.map(|(_, name, path)| heat.row(path, name, FEW));
        rows.collect()
    });
    visit.measure(scene).await
}

/// How many rows are made at a time.
const ROWS: u64 = 1000;

/// One load for each round, whatever the number of callers, committed at its end.
struct BulkLoad(Arena);

#[async_trait]
impl Contender for BulkLoad {
    fn name(&self) -> &str {
        "bulk load"
    }

    async fn round(&self, _: usize, length: Length) -> Result<Round, BoxError> {
        let load = self.0.load().await?;
        let mut load = load.ok_or("the backend has no bulk load")?;
        let mut operations = 0;
        let begin = Instant::now();
        loop {
            let count = match length {
                Length::Time(length) if operations > 0 && begin.elapsed() >= length => 0,
                Length::Time(_) => ROWS,
                Length::Operations(count) => ROWS.min(count - operations),
            };
            if count == 0 {
                break;
            }
            let rows: Vec<_> = (0..count).map(|_| fresh_id()).collect();
            load.rows(&rows).await?;
            operations += count;
        }
        let stored = load.commit().await?;
        let elapsed = begin.elapsed();
        if stored != operations {
            return Err(format!("{stored} of {operations} rows were stored").into());
        }
        Ok(Round {
            operations,
            elapsed,
            latencies: None,
        })
    }
}

/// Measures claims against the server's own bulk load of the same rows into the same table.
pub(super) async fn bulk_load(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    if arena.load().await?.is_none() {
        return Ok(());
    }
    let contenders = vec![
        Measured::boxed(IDEM, Calls(arena.store(), Life::Claim)),
        Box::new(BulkLoad(arena)),
    ];
    // Longer, because a commit for each round weighs less then.
    let scene = Scene::new("bulk_load", &[512], contenders).longer(3);
    visit.measure(scene).await
}
