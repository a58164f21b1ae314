//! The conveniences over any store, on stores that lose answers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Fingerprint,
    IdempotencyStore, IdempotencyStoreExt, Key, Limits, MemoryStore, Record, Response, Result,
    async_trait,
};

/// Loses the answers to the first claims, then refuses the rest or lets them through.
#[derive(Debug)]
struct Lossy {
    inner: MemoryStore,
    losses: AtomicU32,
    refuses: bool,
    /// The number of expired records; each call takes 10 ms.
    expired: AtomicU32,
}

impl Lossy {
    fn new(losses: u32, refuses: bool) -> Self {
        Self {
            inner: MemoryStore::new(),
            losses: AtomicU32::new(losses),
            refuses,
            expired: AtomicU32::new(0),
        }
    }
}

#[async_trait]
impl IdempotencyStore for Lossy {
    fn backend(&self) -> &'static str {
        "lossy"
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let before = self
            .losses
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |losses| {
                losses.checked_sub(1)
            });
        if before.is_ok() {
            let _lost = self.inner.claim(request).await?;
            return Err(Error::new(
                ErrorKind::Unavailable,
                Effect::Unknown,
                "no answer",
            ));
        }
        if self.refuses {
            return Err(Error::new(
                ErrorKind::Unavailable,
                Effect::None,
                "cannot connect",
            ));
        }
        self.inner.claim(request).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.inner.complete(claim, response, retention).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.inner.fail(claim, failure, retention).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.inner.release(claim).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.inner.renew(claim, lease).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.inner.get(key).await
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let left = self.expired.load(Ordering::SeqCst);
        let deleted = left.min(limit);
        self.expired.store(left - deleted, Ordering::SeqCst);
        Ok(deleted.into())
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.inner.fail_abandoned(limit).await
    }
}

fn request() -> ClaimRequest {
    let key = Key::new("tenant", "payments.create", "one").expect("a valid key");
    ClaimRequest::new(key, Fingerprint::raw("request"))
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answers_are_lost_is_recovered() {
    let outcome = Lossy::new(3, false)
        .claim_retrying(&request(), Duration::from_secs(5))
        .await;
    assert_eq!(outcome.unwrap().acquired().unwrap().attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_unknown_effect_makes_the_whole_claim_unknown() {
    let limit = Duration::from_millis(200);
    let error = Lossy::new(1, true)
        .claim_retrying(&request(), limit)
        .await
        .unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    let error = Lossy::new(0, true)
        .claim_retrying(&request(), limit)
        .await
        .unwrap_err();
    assert_eq!(error.effect(), Effect::None, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_purge_beside_traffic_rests_for_nine_tenths_of_its_time() {
    let store = Lossy::new(0, false);
    store.expired.store(3_500, Ordering::SeqCst);
    let began = tokio::time::Instant::now();
    assert_eq!(store.purge_beside_traffic().await.unwrap(), 3_500);
    assert_eq!(began.elapsed(), Duration::from_millis(4 * 10 + 3 * 90));
    assert_eq!(store.purge_beside_traffic().await.unwrap(), 0);
}

#[tokio::test]
async fn a_completed_key_has_a_response() {
    let store = MemoryStore::new();
    let request = request();
    assert_eq!(store.response(request.key()).await.unwrap(), None);
    let claim = store.claim(&request).await.unwrap().acquired().unwrap();
    assert_eq!(store.response(claim.key()).await.unwrap(), None);
    let response = Response::new(201, "made");
    store
        .complete(&claim, &response, Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!(store.response(claim.key()).await.unwrap(), Some(response));
}
