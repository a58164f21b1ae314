//! Claims of fresh keys beside other work, and without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use idem_core::{AttemptId, BoxError, ClaimRequest, ErrorKind, IdempotencyStore};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Visit;
use crate::ids::{Ids, request};
use crate::measured::Measured;
use crate::operations::Claims;
use crate::{Arena, Backend, Contender, Length, Round, Rows};

/// The other work.
#[async_trait]
trait Work: Send + Sync {
    /// Starts the work; its tasks continue until the claims end.
    async fn start(&self, is_over: IsOver) -> Result<JoinSet<Done>, BoxError>;
}

/// Whether the claims have ended.
type IsOver = watch::Receiver<bool>;

/// The result of a task of the other work.
type Done = Result<(), BoxError>;

/// Claims beside other work.
struct Beside<W> {
    claims: Measured<Claims>,
    work: W,
}

#[async_trait]
impl<W: Work> Contender for Beside<W> {
    fn name(&self) -> &str {
        self.claims.name()
    }

    async fn round(&self, callers: usize, length: Length) -> Result<Round, BoxError> {
        let (end, is_over) = watch::channel(false);
        let mut tasks = self.work.start(is_over).await?;
        let round = self.claims.round(callers, length).await;
        end.send_replace(true);
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        round
    }
}

/// Callers of other keys, and the same number of callers of the locked one.
const CALLERS_OF_LOCKED: usize = 64;
const LOCKED: &str = "beside a locked key";
const NOT_LOCKED: &str = "no locked key";

/// The pause of a caller of the locked key after each answer: the engine's pauses are longer.
const PAUSE: Duration = Duration::from_millis(5);

/// A caller's transaction holds a key that 64 callers claim.
struct LockedKey {
    store: Arc<dyn IdempotencyStore>,
    backend: Backend,
    namespace: String,
}

/// Claims the locked key until the round ends.
async fn want(store: Arc<dyn IdempotencyStore>, wanted: ClaimRequest, is_over: IsOver) -> Done {
    while !*is_over.borrow() {
        let wanted = wanted.clone().with_attempt(AttemptId::random());
        match store.claim(&wanted).await {
            Err(error) if error.kind() == ErrorKind::Contention => {}
            Err(error) if *is_over.borrow() => drop(error),
            Err(error) => return Err(error.into()),
            Ok(outcome) => {
                return Err(format!("a locked key was answered {}", outcome.name()).into());
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

#[async_trait]
impl Work for LockedKey {
    async fn start(&self, is_over: IsOver) -> Result<JoinSet<Done>, BoxError> {
        let wanted = request(&Ids::series().next_id());
        let held = self.backend.lock(&self.namespace, &wanted).await?;
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS_OF_LOCKED {
            let (store, is_over) = (Arc::clone(&self.store), is_over.clone());
            callers.spawn(want(store, wanted.clone(), is_over));
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Some(caller) = callers.join_next().await {
                caller??;
            }
            drop(held);
            Ok(())
        });
        Ok(tasks)
    }
}

/// Measures claims beside a key that an open transaction holds. Without transactions there is no
/// scene.
pub(super) async fn locked_key(visit: Visit<'_>) -> Result<(), BoxError> {
    let arena = Arena::new(visit.backend).await?;
    let probe = request(&Ids::series().next_id());
    if visit
        .backend
        .lock(arena.namespace(), &probe)
        .await?
        .is_none()
    {
        return arena.close().await;
    }
    let beside = Beside {
        claims: Measured::new(LOCKED, Claims::fresh(arena.store())),
        work: LockedKey {
            store: arena.store(),
            backend: visit.backend.clone(),
            namespace: arena.namespace().to_owned(),
        },
    };
    let alone = Measured::boxed(NOT_LOCKED, Claims::fresh(arena.store()));
    let contenders: Vec<Box<dyn Contender>> = vec![Box::new(beside), alone];
    let scene = visit.scene("locked_key", &[64], contenders, |heat| {
        let row = heat.row("locked_key", LOCKED, NOT_LOCKED);
        row.into_iter().collect()
    });
    // The transaction is open for five seconds; each round begins with a wait for its lock.
    visit.meter.measure(scene.longer(14)).await?;
    arena.close().await
}

const PURGED: &str = "beside purge";
const HURRIED: &str = "beside purge without a pause";
const NOT_PURGED: &str = "no purge";

/// How many rows are deleted at a time.
const BATCH: u32 = 1000;
/// After a batch the deletion rests this many times as long as it took, as `purge_beside_traffic`
/// does.
const RESTS: u32 = 9;

/// The deletion of expired rows.
struct Purge {
    store: Arc<dyn IdempotencyStore>,
    rests: u32,
    purged: Arc<AtomicU64>,
}

#[async_trait]
impl Work for Purge {
    async fn start(&self, is_over: IsOver) -> Result<JoinSet<Done>, BoxError> {
        let (store, purged) = (Arc::clone(&self.store), Arc::clone(&self.purged));
        let mut tasks = JoinSet::new();
        tasks.spawn(purge_until(is_over, store, self.rests, purged));
        Ok(tasks)
    }
}

/// Deletes until the round ends or nothing is left, at least once.
async fn purge_until(
    mut is_over: IsOver,
    store: Arc<dyn IdempotencyStore>,
    rests: u32,
    purged: Arc<AtomicU64>,
) -> Done {
    let before = purged.load(Ordering::Relaxed);
    loop {
        let began = Instant::now();
        let batch = store.delete_expired(BATCH).await?;
        purged.fetch_add(batch, Ordering::Relaxed);
        if batch == u64::from(BATCH) && !*is_over.borrow() {
            // Ends at once when the round ends.
            let _ = tokio::time::timeout(began.elapsed() * rests, is_over.changed()).await;
        }
        if batch < u64::from(BATCH) || *is_over.borrow() {
            break;
        }
    }
    match purged.load(Ordering::Relaxed) - before {
        0 => Err("nothing was left to purge".into()),
        _ => Ok(()),
    }
}

/// Prints how many rows were deleted.
impl Drop for Purge {
    fn drop(&mut self) {
        let purged = self.purged.load(Ordering::Relaxed);
        eprintln!(
            "{purged} rows were purged, with {} rests a batch",
            self.rests
        );
    }
}

/// Measures claims beside the deletion of many expired rows. If the table cannot be filled, there
/// is no scene.
pub(super) async fn purge(visit: Visit<'_>) -> Result<(), BoxError> {
    if visit.backend.most_rows() == 0 {
        return Ok(());
    }
    let arena = Arena::new(visit.backend).await?;
    // More rows than are deleted during the measurement.
    let expired = *visit.plan.pick(&1_000_000, &100_000);
    let namespace = arena.namespace();
    visit
        .backend
        .fill(namespace, expired, Rows::Expired)
        .await?;
    let mut contenders = vec![Measured::boxed(NOT_PURGED, Claims::fresh(arena.store()))];
    for (name, rests) in [(PURGED, RESTS), (HURRIED, 0)] {
        contenders.push(Box::new(Beside {
            claims: Measured::new(name, Claims::fresh(arena.store())),
            work: Purge {
                store: arena.another().await?,
                rests,
                purged: Arc::default(),
            },
        }));
    }
    let scene = visit.scene("purge", &[8], contenders, |heat| {
        let purged = heat.row("purge", PURGED, NOT_PURGED);
        let hurried = heat.row("purge_without_a_pause", HURRIED, NOT_PURGED);
        purged.into_iter().chain(hurried).collect()
    });
    // Some batches and rests fall into each round.
    visit.meter.measure(scene.longer(3)).await?;
    arena.close().await
}
