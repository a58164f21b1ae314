//! Claims of fresh keys beside other work, and without it.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use idem_core::{AttemptId, BoxError, ClaimRequest, ErrorKind, IdempotencyStore};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::{HOUR, Scene, Visit};
use crate::arena::Arena;
use crate::ids::{fresh_id, request};
use crate::measured::Measured;
use crate::operations::{Calls, Life};
use crate::{Contender, Length, Round};

/// Claims beside other work, which starts before them, says so, and continues until they end.
struct Beside<W> {
    claims: Measured<Calls>,
    work: W,
}

/// Says that the work has started.
pub(super) type Started = oneshot::Sender<()>;

/// Whether the claims have ended.
pub(super) type IsOver = watch::Receiver<bool>;

/// The result of the other work.
pub(super) type Done = Result<(), BoxError>;

/// Returns the contender with fresh claims in this arena.
pub(super) fn beside<W, F>(name: &'static str, arena: &Arena, work: W) -> Box<dyn Contender>
where
    W: Fn(Started, IsOver) -> F + Send + Sync + 'static,
    F: Future<Output = Done> + Send + 'static,
{
    let claims = Measured::new(name, Calls(arena.store(), Life::Claim));
    Box::new(Beside { claims, work })
}

#[async_trait]
impl<W, F> Contender for Beside<W>
where
    W: Fn(Started, IsOver) -> F + Send + Sync,
    F: Future<Output = Done> + Send + 'static,
{
    fn name(&self) -> &str {
        self.claims.name()
    }

    async fn round(&self, callers: usize, length: Length) -> Result<Round, BoxError> {
        let (started, has_started) = oneshot::channel();
        let (end, is_over) = watch::channel(false);
        let work = tokio::spawn((self.work)(started, is_over));
        if has_started.await.is_err() {
            work.await??;
            return Err("the work beside the claims ended before them".into());
        }
        let round = self.claims.round(callers, length).await;
        end.send_replace(true);
        work.await??;
        round
    }
}

/// Callers of other keys, and the same number of callers of the locked one.
const CALLERS_OF_LOCKED: usize = 64;
const LOCKED: &str = "beside a locked key";
const NOT_LOCKED: &str = "no locked key";

/// The pause of a caller of the locked key after each answer: the engine's pauses are longer.
const PAUSE: Duration = Duration::from_millis(5);

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

/// Lets a caller's transaction hold a key that 64 callers claim.
async fn lock(arena: Arena, started: Started, is_over: IsOver) -> Done {
    let wanted = request(&fresh_id());
    let held = arena.lock(&wanted).await?;
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS_OF_LOCKED {
        callers.spawn(want(arena.store(), wanted.clone(), is_over.clone()));
    }
    let _ = started.send(());
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    drop(held);
    Ok(())
}

/// Measures claims beside a key that an open transaction holds. Without transactions there is no
/// scene.
pub(super) async fn locked_key(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    let arena = visit.arena().await?;
    let probe = request(&fresh_id());
    if arena.lock(&probe).await?.is_none() {
        return Ok(());
    }
    let locked = arena.clone();
    let contenders = vec![
        beside(LOCKED, &arena, move |started, is_over| {
            lock(locked.clone(), started, is_over)
        }),
        Measured::boxed(NOT_LOCKED, Calls(arena.store(), Life::Claim)),
    ];
    // The transaction is open for five seconds; each round begins with a wait for its lock.
    let scene = Scene::new("locked_key", &[64], contenders).longer(14);
    visit.measure(scene).await
}

const PURGED: &str = "beside purge";
const HURRIED: &str = "beside purge without a pause";
const NOT_PURGED: &str = "no purge";

/// How many rows are deleted at a time.
const BATCH: u32 = 1000;
/// After a batch the deletion rests this many times as long as it took, as `purge_beside_traffic`
/// does.
const RESTS: u32 = 9;

/// Deletes until the round ends or nothing is left, at least once.
async fn purge_until(mut is_over: IsOver, store: Arc<dyn IdempotencyStore>, rests: u32) -> Done {
    let mut purged = 0;
    loop {
        let began = Instant::now();
        let batch = store.delete_expired(BATCH).await?;
        purged += batch;
        if batch == u64::from(BATCH) && !*is_over.borrow() {
            // Ends at once when the round ends.
            let _ = tokio::time::timeout(began.elapsed() * rests, is_over.changed()).await;
        }
        if batch < u64::from(BATCH) || *is_over.borrow() {
            break;
        }
    }
    eprintln!("{purged} rows were purged, with {rests} rests a batch");
    match purged {
        0 => Err("nothing was left to purge".into()),
        _ => Ok(()),
    }
}

/// Measures claims beside the deletion of many expired rows. If the table cannot be filled, there
/// is no scene.
pub(super) async fn purge(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    if visit.backend.most_rows() == 0 {
        return Ok(());
    }
    let arena = visit.arena().await?;
    // More rows than are deleted during the measurement.
    let expired = *visit.plan.pick(&1_000_000, &100_000);
    arena.fill(expired, -HOUR).await?;
    let claims = Calls(arena.store(), Life::Claim);
    let mut contenders = vec![Measured::boxed(NOT_PURGED, claims)];
    for (name, rests) in [(PURGED, RESTS), (HURRIED, 0)] {
        let store = arena.another().await?;
        contenders.push(beside(name, &arena, move |started, is_over| {
            let _ = started.send(());
            purge_until(is_over, Arc::clone(&store), rests)
        }));
    }
    let scene = Scene::new("purge", &[8], contenders).comparing(|heat| {
        vec![
            heat.row("purge", PURGED, NOT_PURGED),
            heat.row("purge_without_a_pause", HURRIED, NOT_PURGED),
        ]
    });
    // Some batches and rests fall into each round.
    visit.measure(scene.longer(3)).await
}
