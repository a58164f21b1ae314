//! [`SingleFlight`]: identical claims of one process share a call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;

use crate::{
    AttemptId, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, FailedPolicy, Failure,
    Fingerprint, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result, StalePolicy,
    WatermarkStore,
};

/// Shares calls in front of a store: identical claims of this process that arrive while one is
/// under way share the next call. A hundred callers with one key make two calls of the store, for
/// the winner and for all losers, not a hundred.
///
/// Nothing is cached: a caller shares only a call that began after its own, so each answer is as
/// true as one of its own call. An attempt that is repeated, because its answer was lost, has a
/// call of its own: only the store knows whether it is the holder. A lone caller does not wait. A
/// failed call fails one caller only; the others repeat it, one for all.
///
/// Claims are identical when key, fingerprint and policies are. All other operations are forwarded
/// unchanged.
#[derive(Debug)]
pub struct SingleFlight<S> {
    store: S,
    flights: Mutex<HashMap<Flight, Arc<Lane>>>,
}

/// The properties that make claims identical: all losers get the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    key: Key,
    fingerprint: Fingerprint,
    on_stale: StalePolicy,
    on_failed: FailedPolicy,
}

impl Flight {
    pub(super) fn of(request: &ClaimRequest) -> Self {
        Self {
            key: request.key().clone(),
            fingerprint: *request.fingerprint(),
            on_stale: request.on_stale(),
            on_failed: request.on_failed(),
        }
    }
}

/// The calls of one flight, one after the other.
#[derive(Debug)]
struct Lane {
    /// Held by the call that is under way.
    turn: tokio::sync::Mutex<()>,
    /// The call that has not begun.
    next: Mutex<Arc<Call>>,
}

/// One call, and the attempt that it was made for.
type Call = OnceCell<(AttemptId, ClaimOutcome)>;

impl Lane {
    fn new() -> Self {
        Self {
            turn: tokio::sync::Mutex::new(()),
            next: Mutex::default(),
        }
    }

    fn next(&self) -> MutexGuard<'_, Arc<Call>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes this call to new callers: it begins.
    fn close(&self, call: &Arc<Call>) {
        let mut next = self.next();
        if Arc::ptr_eq(&next, call) {
            *next = Arc::default();
        }
    }
}

impl<S: IdempotencyStore> SingleFlight<S> {
    /// Wraps this store.
    pub fn new(store: S) -> Self {
        Self {
            store,
            flights: Mutex::default(),
        }
    }

    /// Returns the wrapped store.
    pub fn store(&self) -> &S {
        &self.store
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Flight, Arc<Lane>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn board(&self, request: &ClaimRequest) -> Passenger<'_, S> {
        let flight = Flight::of(request);
        let mut flights = self.flights();
        let lane = flights
            .entry(flight.clone())
            .or_insert_with(|| Arc::new(Lane::new()));
        Passenger {
            lane: Arc::clone(lane),
            flight,
            wrapper: self,
        }
    }
}

/// A caller on its lane; the last one that leaves removes the lane.
struct Passenger<'s, S: IdempotencyStore> {
    wrapper: &'s SingleFlight<S>,
    flight: Flight,
    lane: Arc<Lane>,
}

impl<S: IdempotencyStore> Passenger<'_, S> {
    /// Shares the next call, or makes it for all its callers.
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        loop {
            let call = Arc::clone(&self.lane.next());
            let made = call.get_or_try_init(async || {
                let _turn = self.lane.turn.lock().await;
                self.lane.close(&call);
                let outcome = self.wrapper.store.claim(request).await?;
                Ok((request.attempt(), outcome))
            });
            let (attempt, outcome) = made.await?;
            // An acquired claim belongs to one caller.
            if *attempt == request.attempt() || !matches!(outcome, ClaimOutcome::Acquired(_)) {
                return Ok(outcome.clone());
            }
        }
    }
}

impl<S: IdempotencyStore> Drop for Passenger<'_, S> {
    fn drop(&mut self) {
        let mut flights = self.wrapper.flights();
        // One count is the map's, one is this.
        if Arc::strong_count(&self.lane) == 2 {
            flights.remove(&self.flight);
        }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore> IdempotencyStore for SingleFlight<S> {
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
        if request.is_first() {
            self.board(request).claim(request).await
        } else {
            self.store.claim(request).await
        }
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.store.complete(claim, response, retention).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.store.fail(claim, failure, retention).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.store.release(claim).await
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
