//! Claims of other keys beside one that an open transaction keeps locked, and without.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{AttemptId, BoxError, ClaimRequest, ErrorKind, IdempotencyStore};
use tokio::task::JoinSet;

use super::{Contenders, Group};
use crate::ids::request;
use crate::locker::OpenTransaction;
use crate::operations::ClaimFresh;
use crate::{Arena, Contender, Counted, Ids, Locker, Measured, Plan, Round, Row, Subject};

/// Callers of other keys, and as many of the locked one.
const CALLERS: usize = 64;
const BESIDE: &str = "beside a locked key";
const ALONE: &str = "no locked key";
const COALESCED: &str = "coalesced beside a locked key";
const COALESCED_ALONE: &str = "coalesced, no locked key";

/// So much longer are the rounds, because each begins with a wait for the lock.
const LONGER: u32 = 4;

/// So long a caller of the locked key waits after each answer: the engine's pauses are longer.
const PAUSE: Duration = Duration::from_millis(5);

/// Claims of fresh keys, while a caller's transaction holds another key and 64 callers want that one.
struct BesideLocked {
    claims: Measured<ClaimFresh>,
    store: Arc<dyn IdempotencyStore>,
    locker: Arc<dyn Locker>,
    namespace: String,
}

/// Asks for the locked key until it is over.
async fn want(
    store: Arc<dyn IdempotencyStore>,
    wanted: ClaimRequest,
    is_over: Arc<AtomicBool>,
) -> Result<(), BoxError> {
    while !is_over.load(Ordering::Relaxed) {
        let wanted = wanted.clone().with_attempt(AttemptId::random());
        match store.claim(&wanted).await {
            Err(error) if error.kind() == ErrorKind::Contention => {}
            Err(error) if is_over.load(Ordering::Relaxed) => drop(error),
            Err(error) => return Err(error.into()),
            Ok(outcome) => {
                return Err(format!("a locked key was answered {}", outcome.name()).into());
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

impl BesideLocked {
    /// What `claims` sees while the key is locked.
    async fn beside(
        &self,
        claims: impl Future<Output = Result<Round, BoxError>> + Send,
    ) -> Result<Round, BoxError> {
        let wanted = request(&Ids::series().next_id());
        let held: OpenTransaction = self.locker.lock(&self.namespace, &wanted).await?;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let store = Arc::clone(&self.store);
            callers.spawn(want(store, wanted.clone(), Arc::clone(&is_over)));
        }
        let round = claims.await;
        is_over.store(true, Ordering::Relaxed);
        while let Some(caller) = callers.join_next().await {
            caller??;
        }
        drop(held);
        round
    }
}

#[async_trait]
impl Contender for BesideLocked {
    fn name(&self) -> &str {
        self.claims.name()
    }

    async fn round(&self, callers: usize, length: Duration) -> Result<Round, BoxError> {
        self.beside(self.claims.round(callers, length)).await
    }
}

#[async_trait]
impl Counted for BesideLocked {
    async fn count(&self, callers: usize, count: u64) -> Result<Round, BoxError> {
        self.beside(self.claims.count(callers, count)).await
    }
}

/// Who takes turns; nobody where the backend has no transactions.
pub fn group(arena: &Arena) -> Contenders {
    let mut group = Contenders::new();
    let Some(locker) = arena.subject().locker() else {
        return group;
    };
    let plain = Some((arena.store(), BESIDE, ALONE));
    let coalesced = arena.coalesced();
    let coalesced = coalesced.map(|store| (store, COALESCED, COALESCED_ALONE));
    for (store, beside, alone) in plain.into_iter().chain(coalesced) {
        group.push(Box::new(BesideLocked {
            claims: Measured::new(beside, ClaimFresh(Arc::clone(&store))),
            store: Arc::clone(&store),
            locker: Arc::clone(locker),
            namespace: arena.namespace().to_owned(),
        }));
        group.push(Measured::boxed(alone, ClaimFresh(store)));
    }
    group
}

pub(super) async fn measure(subject: &Subject, plan: &Plan) -> Result<Vec<Row>, BoxError> {
    if subject.locker().is_none() {
        return Ok(Vec::new());
    }
    let arena = subject.arena().await?;
    let plan = Plan {
        round: plan.round * LONGER,
        ..*plan
    };
    let heat = Group::from(group(&arena)).race(CALLERS, &plan).await?;
    let on = |path| (path, subject.name());
    let mut rows = Vec::new();
    rows.extend(heat.row(on("locked_key"), BESIDE, ALONE));
    rows.extend(heat.row(on("locked_key_coalesced"), COALESCED, COALESCED_ALONE));
    arena.close().await?;
    Ok(rows)
}
