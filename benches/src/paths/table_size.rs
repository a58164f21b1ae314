//! Claims of fresh keys beside few rows and beside many.

use idem_core::BoxError;

use super::{Contenders, Group};
use crate::operations::ClaimFresh;
use crate::{Arena, Measured, Plan, Row, Rows, Subject};

const CALLERS: usize = 8;

/// How many rows there are, what that is called, and what its row in the report is called.
pub type Size = (u64, &'static str, &'static str);

/// The sizes.
pub const SIZES: [Size; 3] = [
    (10_000, "1e4 rows", "table_size_1e4"),
    (1_000_000, "1e6 rows", "table_size_1e6"),
    (10_000_000, "1e7 rows", "table_size_1e7"),
];
/// Fewer of them.
pub const QUICK: [Size; 2] = [SIZES[0], (100_000, "1e5 rows", "table_size_1e5")];

/// A table of each size that the backend makes in reasonable time, and who takes turns; nobody where it makes none.
pub async fn group(
    subject: &Subject,
    sizes: &[Size],
) -> Result<(Vec<Arena>, Contenders), BoxError> {
    let (mut arenas, mut group) = (Vec::new(), Contenders::new());
    let Some(filler) = subject.filler() else {
        return Ok((arenas, group));
    };
    for (rows, name, _) in sizes.iter().filter(|(rows, ..)| *rows <= filler.most()) {
        let arena = subject.arena().await?;
        filler
            .fill(arena.namespace(), *rows, Rows::Completed)
            .await?;
        group.push(Measured::boxed(*name, ClaimFresh(arena.store())));
        arenas.push(arena);
    }
    Ok((arenas, group))
}

pub(super) async fn measure(subject: &Subject, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    let sizes = plan.pick(&SIZES[..], &QUICK);
    let (arenas, group) = group(subject, sizes).await?;
    if arenas.is_empty() {
        return Ok(Vec::new());
    }
    let heat = Group::from(group).race(CALLERS, plan).await?;
    let (_, few, _) = sizes[0];
    let rows = sizes
        .iter()
        .skip(1)
        .filter_map(|(_, name, path)| heat.row((path, subject.name()), name, few));
    let rows = rows.collect();
    for arena in arenas {
        arena.close().await?;
    }
    Ok(rows)
}
