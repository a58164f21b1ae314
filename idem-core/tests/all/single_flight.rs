//! Identical claims that share a call, and what they must not share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_core::wrappers::SingleFlight;
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Fingerprint,
    IdempotencyStore, Key, Limits, MemoryStore, Record, Response, Result, async_trait,
};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

const MINUTES: Duration = Duration::from_secs(600);

/// A memory store whose claims take effect when they enter, and are answered when a permit is
/// given.
#[derive(Debug, Clone)]
struct Gated {
    store: MemoryStore,
    gate: Arc<Semaphore>,
    claims: Arc<AtomicU32>,
    /// How many claims fail before they are sent.
    failures: Arc<AtomicU32>,
}

impl Gated {
    fn closed() -> Self {
        Self {
            store: MemoryStore::new(),
            gate: Arc::new(Semaphore::new(0)),
            claims: Arc::default(),
            failures: Arc::default(),
        }
    }

    fn open(&self) {
        self.gate.add_permits(1_000);
    }

    fn claims(&self) -> u32 {
        self.claims.load(Ordering::SeqCst)
    }

    async fn until_claims(&self, count: u32) {
        while self.claims() < count {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl IdempotencyStore for Gated {
    fn backend(&self) -> &'static str {
        "gated"
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let answer = self.store.claim(request).await;
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.gate
            .acquire()
            .await
            .expect("it is never closed")
            .forget();
        let failing = self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        match failing {
            Ok(_) => Err(Error::new(ErrorKind::Unavailable, Effect::Unknown, "lost")),
            Err(_) => answer,
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

fn request(id: &str) -> ClaimRequest {
    let key = Key::new("tenant", "pay", id).unwrap();
    ClaimRequest::new(key, Fingerprint::raw("one")).with_lease(MINUTES)
}

type Shared = Arc<SingleFlight<Gated>>;

fn shared() -> (Gated, Shared) {
    let store = Gated::closed();
    (store.clone(), Arc::new(SingleFlight::new(store)))
}

fn claims(store: &Shared, request: ClaimRequest) -> JoinHandle<Result<ClaimOutcome>> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.claim(&request).await })
}

/// Waits until the spawned tasks can go no further.
async fn settled() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sixty_four_callers_make_two_calls() {
    let (store, shared) = shared();
    let first = claims(&shared, request("a"));
    store.until_claims(1).await;
    let mut others = JoinSet::new();
    for _ in 0..63 {
        let shared = Arc::clone(&shared);
        others.spawn(async move { shared.claim(&request("a")).await.unwrap().name() });
    }
    settled().await;
    store.open();
    assert_eq!(first.await.unwrap().unwrap().name(), "acquired");
    assert!(
        others
            .join_all()
            .await
            .iter()
            .all(|name| *name == "in_flight")
    );
    assert_eq!(store.claims(), 2);
    let shown = format!("{shared:?}");
    assert!(shown.contains("flights: Mutex { data: {}"), "{shown}");
}

#[tokio::test]
async fn a_later_caller_never_gets_an_earlier_state() {
    let (store, shared) = shared();
    let holder = request("a");
    let claim = store
        .store
        .claim(&holder)
        .await
        .unwrap()
        .acquired()
        .unwrap();
    let early = claims(&shared, request("a"));
    store.until_claims(1).await;
    store
        .complete(&claim, &Response::new(200, "made"), MINUTES)
        .await
        .unwrap();
    let late = claims(&shared, request("a"));
    settled().await;
    store.open();
    assert_eq!(early.await.unwrap().unwrap().name(), "in_flight");
    assert_eq!(late.await.unwrap().unwrap().name(), "completed");
}

#[tokio::test]
async fn an_attempt_that_claims_again_is_still_the_holder() {
    let (store, shared) = shared();
    let holder = request("a");
    let lost = claims(&shared, holder.clone());
    store.until_claims(1).await;
    lost.abort();
    assert!(lost.await.is_err());
    // Others are under way, and one is waiting, when it claims again.
    let [one, two] = [claims(&shared, request("a")), claims(&shared, request("a"))];
    store.until_claims(2).await;
    let again = claims(&shared, holder.clone());
    let serialized: ClaimRequest =
        serde_json::from_str(&serde_json::to_string(&holder).unwrap()).unwrap();
    let elsewhere = claims(&shared, serialized);
    let rebuilt = claims(&shared, request("a").with_attempt(holder.attempt()));
    settled().await;
    store.open();
    for own in [again, elsewhere, rebuilt] {
        assert_eq!(own.await.unwrap().unwrap().name(), "acquired");
    }
    for other in [one, two] {
        assert_eq!(other.await.unwrap().unwrap().name(), "in_flight");
    }
}

#[tokio::test]
async fn a_dropped_caller_takes_no_other_along() {
    let (store, shared) = shared();
    let first = claims(&shared, request("a"));
    store.until_claims(1).await;
    let sender = claims(&shared, request("a"));
    settled().await;
    let [second, third] = [claims(&shared, request("a")), claims(&shared, request("a"))];
    settled().await;
    // The caller that was to send for the others.
    sender.abort();
    assert!(sender.await.is_err());
    store.open();
    assert_eq!(first.await.unwrap().unwrap().name(), "acquired");
    for other in [second, third] {
        assert_eq!(other.await.unwrap().unwrap().name(), "in_flight");
    }
    assert_eq!(store.claims(), 2);
}

#[tokio::test]
async fn a_failed_call_fails_one_caller() {
    let (store, shared) = shared();
    store.failures.store(1, Ordering::SeqCst);
    let runs: Vec<_> = (0..8).map(|_| claims(&shared, request("a"))).collect();
    settled().await;
    store.open();
    let mut failed = 0;
    for run in runs {
        failed += u32::from(run.await.unwrap().is_err());
    }
    assert_eq!(failed, 1);
}

#[tokio::test]
async fn other_requests_have_calls_of_their_own() {
    let (store, shared) = shared();
    let other = {
        let key = request("a").key().clone();
        ClaimRequest::new(key, Fingerprint::raw("two"))
    };
    let runs = [
        claims(&shared, request("a")),
        claims(&shared, request("b")),
        claims(&shared, other),
    ];
    store.until_claims(3).await;
    store.open();
    let mut names = Vec::new();
    for run in runs {
        names.push(run.await.unwrap().unwrap().name());
    }
    assert_eq!(names, ["acquired", "acquired", "conflict"]);
}
