//! Claims beside a purge of many expired rows, and without.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore};
use tokio::sync::watch;

use super::{Contenders, Group};
use crate::operations::ClaimFresh;
use crate::{Arena, Contender, Counted, Measured, Plan, Round, Row, Rows, Subject};

const CALLERS: usize = 8;
const BESIDE: &str = "beside purge";
const HURRIED: &str = "beside purge without a pause";
const ALONE: &str = "no purge";

/// How many expired rows there are: more than are purged while anybody is measured.
const EXPIRED: u64 = 1_000_000;
const EXPIRED_QUICK: u64 = 100_000;
/// How many are purged at a time.
const BATCH: u32 = 1000;
/// By somebody who is in no hurry, and rests so many times as long as a batch took: as `purge_beside_traffic` does.
const RESTS: u32 = 9;
/// So much longer are the rounds, so that some batches and rests fall into each.
const LONGER: u32 = 3;

/// Claims, while somebody purges.
struct BesidePurge {
    claims: Measured<ClaimFresh>,
    purger: Arc<dyn IdempotencyStore>,
    /// How long it rests, in times of a batch.
    rests: u32,
    purged: AtomicU64,
}

/// Purges until told to stop, or until nothing is left, at least once; how many rows.
async fn delete_expired(
    store: Arc<dyn IdempotencyStore>,
    rests: u32,
    mut stop: watch::Receiver<bool>,
) -> Result<u64, BoxError> {
    let mut purged = 0;
    loop {
        let began = Instant::now();
        let batch = store.delete_expired(BATCH).await?;
        purged += batch;
        if batch < u64::from(BATCH) || *stop.borrow() {
            break;
        }
        // Over at once when it is told to stop.
        let _ = tokio::time::timeout(began.elapsed() * rests, stop.changed()).await;
        if *stop.borrow() {
            break;
        }
    }
    match purged {
        0 => Err("nothing was left to purge".into()),
        purged => Ok(purged),
    }
}

impl BesidePurge {
    /// What `claims` sees while somebody purges.
    async fn beside(
        &self,
        claims: impl Future<Output = Result<Round, BoxError>> + Send,
    ) -> Result<Round, BoxError> {
        let (stop, stopped) = watch::channel(false);
        let purging = delete_expired(Arc::clone(&self.purger), self.rests, stopped);
        let purging = tokio::spawn(purging);
        let round = claims.await;
        // It may have ended.
        let _ = stop.send(true);
        self.purged.fetch_add(purging.await??, Ordering::Relaxed);
        round
    }
}

#[async_trait]
impl Contender for BesidePurge {
    fn name(&self) -> &str {
        self.claims.name()
    }

    async fn round(&self, callers: usize, length: Duration) -> Result<Round, BoxError> {
        self.beside(self.claims.round(callers, length)).await
    }
}

#[async_trait]
impl Counted for BesidePurge {
    async fn count(&self, callers: usize, count: u64) -> Result<Round, BoxError> {
        self.beside(self.claims.count(callers, count)).await
    }
}

/// Tells how many rows went.
impl Drop for BesidePurge {
    fn drop(&mut self) {
        let purged = self.purged.load(Ordering::Relaxed);
        eprintln!("{}: {purged} rows were purged", self.claims.name());
    }
}

/// Who takes turns; nobody where the backend is not filled.
pub async fn group(arena: &Arena, expired: u64) -> Result<Contenders, BoxError> {
    let mut group = Contenders::new();
    let Some(filler) = arena.subject().filler() else {
        return Ok(group);
    };
    filler
        .fill(arena.namespace(), expired, Rows::Expired)
        .await?;
    let harness = arena.subject().harness();
    for (name, rests) in [(BESIDE, RESTS), (HURRIED, 0)] {
        group.push(Box::new(BesidePurge {
            claims: Measured::new(name, ClaimFresh(arena.store())),
            purger: harness.open(arena.namespace()).await?,
            rests,
            purged: AtomicU64::new(0),
        }));
    }
    group.push(Measured::boxed(ALONE, ClaimFresh(arena.store())));
    Ok(group)
}

pub(super) async fn measure(subject: &Subject, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    if subject.filler().is_none() {
        return Ok(Vec::new());
    }
    let arena = subject.arena().await?;
    let expired = plan.pick(&EXPIRED, &EXPIRED_QUICK);
    let group = group(&arena, *expired).await?;
    let plan = Plan {
        round: plan.round * LONGER,
        ..*plan
    };
    let heat = Group::from(group).race(CALLERS, &plan).await?;
    let on = |path| (path, subject.name());
    let mut rows = Vec::new();
    rows.extend(heat.row(on("purge"), BESIDE, ALONE));
    rows.extend(heat.row(on("purge_without_a_pause"), HURRIED, ALONE));
    arena.close().await?;
    Ok(rows)
}
