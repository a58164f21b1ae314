//! A world with effects, and processes that are killed at any call of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::engine::SagaStep;
use idem_core::{
    BusyPolicy, Claim, ClaimOutcome, ClaimRequest, Failure, Idempotency, IdempotencyStore, Key,
    Limits, MemoryStore, Policy, Record, Response, Result, async_trait,
};
use tokio::sync::Notify;

pub(crate) fn key() -> Key {
    Key::new("tenant", "order", "one").unwrap()
}

/// Short leases, because the tests wait for those of killed processes.
pub(crate) fn policy() -> Policy {
    Policy::default()
        .with_lease(Duration::from_millis(12))
        .with_on_busy(BusyPolicy::wait(Duration::from_secs(20)))
}

/// What a process does before it is killed: this many calls of the store, the last of which takes
/// effect or does not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) calls: u32,
    pub(crate) last_takes_effect: bool,
}

/// What outlives every process: the store, and the effects.
#[derive(Debug, Default, Clone)]
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    sealed: Arc<Mutex<BTreeSet<String>>>,
    /// The keys under which each effect happened, as the other side knows them.
    done: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
    order: Arc<Mutex<Vec<String>>>,
}

impl World {
    /// Has an effect at a system that knows keys: the same effect under the same key does not
    /// happen twice.
    pub(crate) fn effect<R>(&self, name: &str, step: &SagaStep<R>) {
        let key = step.work().key();
        let sealed = self.sealed.lock().unwrap();
        assert!(
            !sealed.contains(&key.path()),
            "{name} is done after its seal"
        );
        let id = step.work().derive("effect").id().to_owned();
        let mut done = self.done.lock().unwrap();
        if done.entry(name.to_owned()).or_default().insert(id) {
            self.order.lock().unwrap().push(name.to_owned());
        }
    }

    /// Returns the effects in order; an effect under two keys appears twice.
    pub(crate) fn order(&self) -> Vec<String> {
        self.order.lock().unwrap().clone()
    }

    /// Runs in a process of its own, on a runtime that dies with it; returns `None` when it was
    /// killed.
    pub(crate) fn process<T>(
        &self,
        life: Option<Life>,
        body: impl AsyncFnOnce(Idempotency) -> T,
    ) -> Option<T> {
        let mortal = Arc::new(Mortal {
            world: self.clone(),
            life,
            calls: AtomicU32::new(0),
            is_dead: AtomicBool::new(false),
            died: Notify::new(),
        });
        let idem = Idempotency::new(Arc::clone(&mortal)).with_policy(policy());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = mortal.died.notified() => None,
                value = body(idem) => Some(value),
            }
        })
    }
}

#[derive(Debug)]
struct Mortal {
    world: World,
    life: Option<Life>,
    calls: AtomicU32,
    is_dead: AtomicBool,
    died: Notify,
}

impl Mortal {
    async fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        self.died.notify_one();
        pending::<()>().await;
    }

    async fn act<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        if self.is_dead.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let last = self.life.filter(|life| life.calls == number);
        if last.is_some_and(|life| !life.last_takes_effect) {
            self.die().await;
        }
        tokio::task::yield_now().await;
        let answer = call.await;
        if last.is_some() {
            self.die().await;
        }
        answer
    }
}

#[async_trait]
impl IdempotencyStore for Mortal {
    fn backend(&self) -> &'static str {
        "mortal"
    }

    fn limits(&self) -> Limits {
        self.world.store.limits()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.act(self.world.store.claim(request)).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let call = async {
            let answer = self.world.store.complete(claim, response, retention).await;
            if answer.is_ok() {
                let mut sealed = self.world.sealed.lock().unwrap();
                sealed.insert(claim.key().path());
            }
            answer
        };
        self.act(call).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.act(self.world.store.fail(claim, failure, retention))
            .await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.act(self.world.store.release(claim)).await
    }

    /// Not counted: its calls depend on the clock.
    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        if self.is_dead.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
        self.world.store.renew(claim, lease).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.world.store.get(key).await
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.world.store.delete_expired(limit).await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.world.store.fail_abandoned(limit).await
    }
}
