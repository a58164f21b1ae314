//! Claims against the server's own bulk load of the same rows into the same table.

use std::time::Instant;

use async_trait::async_trait;
use idem_core::BoxError;

use super::scene::Heat;
use super::{IDEM, Visit};
use crate::ids::Ids;
use crate::measured::Measured;
use crate::operations::Claims;
use crate::{Arena, Backend, Contender, Length, Load, Round};

/// How many rows are made at a time.
const ROWS: u64 = 1000;

/// One load for each round, whatever the number of callers, committed at its end.
struct BulkLoad {
    backend: Backend,
    namespace: String,
}

impl BulkLoad {
    async fn begin(&self) -> Result<Option<Box<dyn Load>>, BoxError> {
        self.backend.load(&self.namespace).await
    }
}

#[async_trait]
impl Contender for BulkLoad {
    fn name(&self) -> &str {
        "bulk load"
    }

    async fn round(&self, _: usize, length: Length) -> Result<Round, BoxError> {
        let load = self.begin().await?;
        let mut load = load.ok_or("the backend has no bulk load")?;
        let (mut ids, mut operations) = (Ids::series(), 0);
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
            let rows: Vec<_> = (0..count).map(|_| ids.next_id()).collect();
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

pub(super) async fn visit(visit: Visit<'_>) -> Result<(), BoxError> {
    let arena = Arena::new(visit.backend).await?;
    let load = BulkLoad {
        backend: visit.backend.clone(),
        namespace: arena.namespace().to_owned(),
    };
    if load.begin().await?.is_some() {
        let contenders = vec![
            Measured::boxed(IDEM, Claims::fresh(arena.store())),
            Box::new(load),
        ];
        // Longer, because a commit for each round weighs less then.
        let scene = visit.scene("bulk_load", &[512], contenders, Heat::rows);
        visit.meter.measure(scene.longer(3)).await?;
    }
    arena.close().await
}
