//! Claims beside a purge of many expired rows, and without.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore};
use tokio::time::Instant;

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
/// How often, by somebody who is in no hurry: a million rows in less than two minutes.
const EVERY: Duration = Duration::from_millis(100);

/// Claims, while somebody purges.
struct BesidePurge {
    claims: Measured<ClaimFresh>,
    purger: Arc<dyn IdempotencyStore>,
    /// From the beginning of a batch to that of the next; without a pause where there is none.
    every: Option<Duration>,
    purged: AtomicU64,
}

/// Purges until told to stop, or until nothing is left; how many rows.
async fn purge(
    store: Arc<dyn IdempotencyStore>,
    every: Option<Duration>,
    stop: Arc<AtomicBool>,
) -> Result<u64, BoxError> {
    let mut purged = 0;
    while !stop.load(Ordering::Relaxed) {
        let next = every.map(|every| Instant::now() + every);
        let batch = store.purge(BATCH).await?;
        purged += batch;
        if batch < u64::from(BATCH) {
            break;
        }
        if let Some(next) = next {
            tokio::time::sleep_until(next).await;
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
        let stop = Arc::new(AtomicBool::new(false));
        let purging = purge(Arc::clone(&self.purger), self.every, Arc::clone(&stop));
        let purging = tokio::spawn(purging);
        let round = claims.await;
        stop.store(true, Ordering::Relaxed);
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
    for (name, every) in [(BESIDE, Some(EVERY)), (HURRIED, None)] {
        group.push(Box::new(BesidePurge {
            claims: Measured::new(name, ClaimFresh(arena.store())),
            purger: harness.open(arena.namespace()).await?,
            every,
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
    let heat = Group::from(group).race(CALLERS, plan).await?;
    let on = |path| (path, subject.name());
    let mut rows = Vec::new();
    rows.extend(heat.row(on("purge"), BESIDE, ALONE));
    rows.extend(heat.row(on("purge_without_a_pause"), HURRIED, ALONE));
    arena.close().await?;
    Ok(rows)
}
