//! [`Batched`]: callers that wait anyway share a round trip.

mod send;
mod work;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::work::Work;
use crate::backend::batcher::{Bounds, Reply};
use crate::backend::{Access, Batcher, LockedKeys};
use crate::limits::MAX_BATCH;
use crate::{
    BatchStore, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    Failure, Finish, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result,
    WatermarkStore,
};

/// The lanes of one kind of operation, and the callers that wait for one.
type Lanes<W> = Batcher<W, Result<<W as Work>::Answer>>;

/// Adds batching to a store: claims that arrive while a round trip is under way go together in the
/// next one, as a batch of the store; so do completions, failures and releases.
///
/// There is no timer. A caller that arrives while fewer callers are under way than there are lanes
/// sends at once, alone, in its own task. Any other one waits for a free lane, and shares a batch
/// with all that wait by then. A lane is the right to make one call at a time; claims have lanes of
/// their own, and so have the steps that end claims.
///
/// Each caller gets the answer that it would have got alone:
/// * An error of a batch may be caused by another caller's item: the items that got it are sent
///   once more, each alone. Without [`with_timeout`](Self::with_timeout) a caller may therefore
///   wait for twice the store's time-out.
/// * A caller that stops waiting changes nothing for the others; if its operation was not sent yet,
///   it never is.
/// * Identical claims in one batch are sent once. The losers share the answer; an acquired claim
///   belongs to one caller. A repeated attempt is sent alone, beside the lanes: it may be the
///   holder.
/// * Keys go in order within a batch, each once.
/// * A key that a store answered with `Contention` is sent alone for a second or two, beside the
///   lanes: an open transaction that keeps it locked delays no batch.
///
/// A batch has at most [`with_max_batch`](Self::with_max_batch) items, and about 1 MiB. All other
/// operations are forwarded unchanged, batches too.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use idem_core::wrappers::Batched;
/// use idem_core::{Idempotency, MemoryStore};
///
/// let store = Batched::new(MemoryStore::new()).with_lanes(4);
/// let idempotency = Idempotency::new(store);
/// # let _ = idempotency;
/// # }
/// ```
///
/// Batches run in tasks of the caller's runtime. When that runtime ends, the remaining callers do
/// not hang: the next one takes over.
pub struct Batched<S> {
    store: Arc<S>,
    settings: Settings,
    claims: Arc<Lanes<ClaimRequest>>,
    ends: Arc<Lanes<Finish>>,
    /// Keys that are left out of batches for a while.
    locked: LockedKeys,
}

#[derive(Clone, Copy)]
struct Settings {
    lanes: usize,
    batch: usize,
    waiting: usize,
    /// How long a caller waits for the answer of a batch.
    timeout: Duration,
}

impl Settings {
    fn lanes<S: BatchStore, W: Work>(self, store: &Arc<S>, locked: &LockedKeys) -> Arc<Lanes<W>> {
        let bounds = Bounds {
            alone: self.lanes,
            batches: self.lanes,
            items: self.batch,
            waiting: self.waiting,
            bytes: W::bytes,
        };
        let (store, locked) = (Arc::clone(store), locked.clone());
        Batcher::with_bounds(bounds, move |lanes, waiters| {
            send::send(Arc::clone(&store), locked.clone(), lanes, waiters)
        })
    }
}

impl<S: BatchStore> Batched<S> {
    /// Wraps this store: 2 lanes for claims and 2 for the ends of claims, 256 items in a batch,
    /// 10,000 waiting callers.
    pub fn new(store: S) -> Self {
        let settings = Settings {
            lanes: 2,
            batch: 256,
            waiting: 10_000,
            timeout: Duration::MAX,
        };
        Self::with_settings(Arc::new(store), settings)
    }

    /// Sets how many calls run at once, of claims and of the ends of claims each; at least 1. A lane
    /// needs a connection: more lanes than the store has connections are useless.
    #[must_use]
    pub fn with_lanes(self, lanes: u16) -> Self {
        let lanes = usize::from(lanes.max(1));
        self.set(|settings| settings.lanes = lanes)
    }

    /// Sets how many items a batch has at most; 1 to [`MAX_BATCH`].
    #[must_use]
    pub fn with_max_batch(self, items: u32) -> Self {
        let batch = items.clamp(1, MAX_BATCH) as usize;
        self.set(|settings| settings.batch = batch)
    }

    /// Sets how many callers wait at most, for claims and for the ends of claims each. A further one
    /// gets `Unavailable` at once, and nothing was sent.
    #[must_use]
    pub fn with_max_waiting(self, callers: u32) -> Self {
        self.set(|settings| settings.waiting = callers as usize)
    }

    /// Sets how long a caller waits for the answer of a batch, in the queue and in the store
    /// together. Default: no limit. After that time it gets `Unavailable`, without effect if its
    /// operation was not sent. A caller that sends alone waits as long as the store lets it.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.timeout = timeout)
    }

    /// No caller waits yet, so the lanes are created anew.
    fn set(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.settings);
        Self::with_settings(self.store, self.settings)
    }

    fn with_settings(store: Arc<S>, settings: Settings) -> Self {
        let locked = LockedKeys::new();
        Self {
            settings,
            claims: settings.lanes(&store, &locked),
            ends: settings.lanes(&store, &locked),
            locked,
            store,
        }
    }

    /// Returns the wrapped store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Sends alone where few callers are under way, and in a batch otherwise.
    async fn ask<W: Work, F>(
        &self,
        lanes: &Arc<Lanes<W>>,
        (name, key): (&'static str, &Key),
        work: impl FnOnce() -> W + Send,
        alone: impl FnOnce() -> F + Send,
    ) -> Result<W::Answer>
    where
        F: Future<Output = Result<W::Answer>> + Send,
    {
        if self.locked.was_locked(key) {
            return self.noted(key, alone().await);
        }
        let lane = match lanes.alone() {
            Some(lane) => Ok(lane),
            None => match lanes.wait(work()) {
                None => Err(self.is_full()),
                Some(wait) => match self.in_time(wait.reply).await {
                    Some(Ok(Reply::Answer(answer))) => return answer,
                    Some(Ok(Reply::Lead(lane))) => Ok(lane),
                    Some(Err(_)) => Err(lost()),
                    None => Err(self.timed_out(lanes.leave(wait.id))),
                },
            },
        };
        // The lane is in use until the answer is there.
        let _lane = lane.map_err(|error| error.at(self.store.backend(), name))?;
        self.noted(key, alone().await)
    }

    /// Returns the reply if it comes within the time-out.
    async fn in_time<F: Future>(&self, reply: F) -> Option<F::Output> {
        match self.settings.timeout {
            Duration::MAX => Some(reply.await),
            timeout => tokio::time::timeout(timeout, reply).await.ok(),
        }
    }

    fn timed_out(&self, was_queued: bool) -> Error {
        let access = match was_queued {
            true => Access::Read,
            false => Access::Write,
        };
        access.timed_out(self.settings.timeout)
    }

    fn is_full(&self) -> Error {
        let waiting = self.settings.waiting;
        let message = format!("{waiting} callers wait for the store already; ask again later");
        Error::new(ErrorKind::Unavailable, Effect::None, message)
    }

    fn noted<T>(&self, key: &Key, answer: Result<T>) -> Result<T> {
        note(&self.locked, key, answer.as_ref().err());
        answer
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: BatchStore> IdempotencyStore for Batched<S> {
    fn backend(&self) -> &'static str {
        self.store.backend()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        self.store.checkpoints()
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        self.store.watermarks()
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        self.store.admin()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let alone = || self.store.claim(request);
        // It may be the holder: only the store knows, and answers so to this attempt only.
        if !request.is_first() {
            return self.noted(request.key(), alone().await);
        }
        let claim = || request.clone();
        self.ask(&self.claims, ("claim", request.key()), claim, alone)
            .await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let complete = || Finish::Complete {
            claim: claim.clone(),
            response: response.clone(),
            retention,
        };
        let alone = || self.store.complete(claim, response, retention);
        self.ask(&self.ends, ("complete", claim.key()), complete, alone)
            .await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        let fail = || Finish::Fail {
            claim: claim.clone(),
            failure: failure.clone(),
            retention,
        };
        let alone = || self.store.fail(claim, failure, retention);
        self.ask(&self.ends, ("fail", claim.key()), fail, alone)
            .await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        let release = || Finish::Release {
            claim: claim.clone(),
        };
        let alone = || self.store.release(claim);
        self.ask(&self.ends, ("release", claim.key()), release, alone)
            .await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.store.renew(claim, lease).await
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

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: BatchStore> BatchStore for Batched<S> {
    async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        self.store.claim_many(requests).await
    }

    async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        self.store.finish_many(items).await
    }
}

impl<S: fmt::Debug> fmt::Debug for Batched<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched")
            .field("store", &self.store)
            .field("claims", &self.claims)
            .field("ends", &self.ends)
            .finish()
    }
}

/// Remembers the key of an error that says that another caller holds it.
fn note(locked: &LockedKeys, key: &Key, error: Option<&Error>) {
    if error.is_some_and(|error| error.kind() == ErrorKind::Contention) {
        locked.found_locked(key);
    }
}

/// Returns the error for a caller that gets no answer: the task that sent its item is gone.
fn lost() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        Effect::Unknown,
        "the task that asked for this batch has ended before its answer; ask again",
    )
}
