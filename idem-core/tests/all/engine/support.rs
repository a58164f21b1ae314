//! A store with scripted faults, and helpers that the cases share.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use idem_core::{
    AttemptId, Checkpoint, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error,
    ErrorKind, Failure, Idempotency, IdempotencyStore, Key, Limits, MemoryStore, Policy, Record,
    Response, Result, async_trait,
};

/// What goes wrong with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is refused without effect: try again.
    Down,
    /// It takes effect and the answer is lost.
    LostAnswer,
    /// It takes effect and no answer ever comes.
    Silence,
    /// It takes effect, and the process stops for 60 ms before it gets the answer.
    Late,
    /// It is refused for good, without effect.
    Broken,
    /// An open transaction holds the key: refused without effect.
    Contended,
}

#[derive(Debug)]
struct Script {
    /// The next faults, by operation; the last one may stay for ever.
    faults: HashMap<&'static str, Vec<Fault>>,
    always: HashMap<&'static str, Fault>,
    calls: HashMap<&'static str, u32>,
    attempts: Vec<AttemptId>,
    claimed_at: Vec<tokio::time::Instant>,
}

/// A memory store that fails by script. Each call takes a few polls, as over a network.
#[derive(Debug, Clone)]
pub(crate) struct Scripted {
    store: MemoryStore,
    script: Arc<Mutex<Script>>,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        Self::over(MemoryStore::new())
    }

    pub(crate) fn over(store: MemoryStore) -> Self {
        let script = Script {
            faults: HashMap::new(),
            always: HashMap::new(),
            calls: HashMap::new(),
            attempts: Vec::new(),
            claimed_at: Vec::new(),
        };
        Self {
            store,
            script: Arc::new(Mutex::new(script)),
        }
    }

    /// Makes the next calls of `operation` fail so.
    pub(crate) fn next(&self, operation: &'static str, faults: &[Fault]) {
        let mut script = self.script.lock().unwrap();
        script
            .faults
            .insert(operation, faults.iter().rev().copied().collect());
    }

    /// Makes every call of `operation` fail so.
    pub(crate) fn always(&self, operation: &'static str, fault: Fault) {
        self.script.lock().unwrap().always.insert(operation, fault);
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        let mut script = self.script.lock().unwrap();
        script.faults.clear();
        script.always.clear();
    }

    pub(crate) fn calls(&self, operation: &'static str) -> u32 {
        let script = self.script.lock().unwrap();
        script.calls.get(operation).copied().unwrap_or(0)
    }

    /// Returns the attempt ids of all claims, in order.
    pub(crate) fn attempts(&self) -> Vec<AttemptId> {
        self.script.lock().unwrap().attempts.clone()
    }

    /// Returns the maximum time between two claims, by Tokio's clock.
    pub(crate) fn max_pause(&self) -> Duration {
        let script = self.script.lock().unwrap();
        let pauses = script.claimed_at.windows(2).map(|pair| pair[1] - pair[0]);
        pauses.max().unwrap_or_default()
    }

    /// Returns the live record, without a scripted call.
    pub(crate) fn peek(&self) -> Option<Record> {
        let get = pin!(self.store.get(key()));
        match get.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(record) => record.unwrap(),
            Poll::Pending => panic!("a memory store answers at once"),
        }
    }

    fn fault(&self, operation: &'static str) -> Option<Fault> {
        let mut script = self.script.lock().unwrap();
        *script.calls.entry(operation).or_default() += 1;
        let next = script.faults.get_mut(operation).and_then(Vec::pop);
        next.or_else(|| script.always.get(operation).copied())
    }

    pub(crate) async fn act<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let unavailable = |effect| Err(Error::new(ErrorKind::Unavailable, effect, "scripted"));
        let fault = self.fault(operation);
        tokio::task::yield_now().await;
        match fault {
            Some(Fault::Down) => return unavailable(Effect::None),
            Some(Fault::Broken) => {
                return Err(Error::new(
                    ErrorKind::Misconfigured,
                    Effect::None,
                    "scripted",
                ));
            }
            Some(Fault::Contended) => {
                return Err(Error::new(ErrorKind::Contention, Effect::None, "scripted"));
            }
            Some(Fault::LostAnswer | Fault::Silence | Fault::Late) | None => {}
        }
        let answer = call.await;
        tokio::task::yield_now().await;
        match fault {
            Some(Fault::LostAnswer) => unavailable(Effect::Unknown),
            Some(Fault::Silence) => pending().await,
            Some(Fault::Late) => {
                std::thread::sleep(Duration::from_millis(60));
                answer
            }
            _ => answer,
        }
    }
}

#[async_trait]
impl IdempotencyStore for Scripted {
    fn backend(&self) -> &'static str {
        "scripted"
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        Some(self)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        {
            let mut script = self.script.lock().unwrap();
            script.attempts.push(request.attempt());
            script.claimed_at.push(tokio::time::Instant::now());
        }
        self.act("claim", self.store.claim(request)).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let call = self.store.complete(claim, response, retention);
        self.act("complete", call).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.act("fail", self.store.fail(claim, failure, retention))
            .await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.act("release", self.store.release(claim)).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.act("renew", self.store.renew(claim, lease)).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.store.get(key).await
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.store.delete_expired(limit).await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.store.fail_abandoned(limit).await
    }
}

#[async_trait]
impl CheckpointStore for Scripted {
    async fn checkpoint(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let call = self.store.checkpoint(claim, checkpoint);
        self.act("checkpoint", call).await
    }

    async fn last_checkpoint(&self, claim: &Claim) -> Result<Option<Checkpoint>> {
        let call = self.store.last_checkpoint(claim);
        self.act("last_checkpoint", call).await
    }
}

pub(crate) const MINUTES: Duration = Duration::from_secs(600);

/// The one key of all cases; each has a store of its own.
pub(crate) fn key() -> &'static Key {
    static KEY: LazyLock<Key> =
        LazyLock::new(|| Key::new("tenant", "operation", "request").unwrap());
    &KEY
}

/// The default policy with a lease of minutes.
pub(crate) fn calm() -> Policy {
    Policy::default().with_lease(MINUTES)
}

/// Returns an engine on a store with this policy.
pub(crate) fn idem(store: &Scripted, policy: Policy) -> Idempotency {
    Idempotency::new(store.clone()).with_policy(policy)
}

/// Effects that have happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effects(Arc<AtomicU32>);

impl Effects {
    /// Counts one more; returns its number.
    pub(crate) fn happen(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Work that always returns the number of its effect.
pub(crate) async fn counted(effects: Effects) -> Result<u32, std::io::Error> {
    Ok(effects.happen())
}

/// Bounds a loop that waits for a condition.
#[derive(Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn in_half_a_minute() -> Self {
        Self(Instant::now() + Duration::from_secs(30))
    }

    /// Pauses before the next try; panics after the deadline.
    pub(crate) async fn pause(&self, what: &str) {
        assert!(Instant::now() < self.0, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits for a condition, at most half a minute.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool + Send) {
    let deadline = Deadline::in_half_a_minute();
    while !condition() {
        deadline.pause(what).await;
    }
}

/// Waits until the key is free.
pub(crate) async fn until_free(store: &Scripted) {
    until("the key is free", || store.peek().is_none()).await;
}

/// Waits until the key's record is failed; returns the code.
pub(crate) async fn until_failed(store: &Scripted) -> String {
    let mut code = String::new();
    until("the record is failed", || {
        match store.peek() {
            Some(Record::Failed(failed)) => code = failed.failure.code().to_owned(),
            _ => return false,
        }
        true
    })
    .await;
    code
}
