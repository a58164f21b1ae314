//! A store and a service as they might look on a weekday, for pictures: the memory store, whose
//! records seem older than they are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_core::admin::{
    Cursor, Forced, ForcedAction, ForcedStep, RecordFilter, RecordPage, RecordSummary, Rewrite,
};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Failure, Fingerprint, IdempotencyStore, Key, Limits,
    MemoryStore, Metadata, Record, RecordAdmin, Response, Result, Timestamp, async_trait,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const DAY: Duration = Duration::from_secs(86_400);

#[derive(Debug)]
struct Aged {
    store: MemoryStore,
    seconds: HashMap<Key, u64>,
}

impl Aged {
    fn age(&self, mut record: RecordSummary) -> RecordSummary {
        let seconds = self.seconds.get(&record.key).copied().unwrap_or(0);
        let earlier = |at: Timestamp, seconds: u64| {
            Timestamp::from_micros(at.as_micros() - seconds as i64 * 1_000_000)
        };
        record.created_at = earlier(record.created_at, seconds);
        record.sealed_at = record.sealed_at.map(|at| earlier(at, seconds * 9 / 10));
        if record.state == idem_core::admin::SummaryState::Stale {
            record.lease_ends_at = record.lease_ends_at.map(|at| earlier(at, seconds * 2 / 3));
        }
        record
    }
}

#[async_trait]
impl RecordAdmin for Aged {
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage> {
        let mut page = self.store.list(filter, after, limit).await?;
        let records = page.records.into_iter();
        page.records = records.map(|record| self.age(record)).collect();
        Ok(page)
    }

    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>> {
        let summary = self.store.summary(key).await?;
        Ok(summary.map(|record| self.age(record)))
    }

    async fn force(&self, step: &ForcedStep) -> Result<Forced> {
        self.store.force(step).await
    }

    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool> {
        self.store.rewrite(rewrite).await
    }
}

#[async_trait]
impl IdempotencyStore for Aged {
    fn backend(&self) -> &'static str {
        "aged"
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        Some(self)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.store.claim(request).await
    }

    async fn complete(&self, claim: &Claim, response: &Response, kept: Duration) -> Result<()> {
        self.store.complete(claim, response, kept).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, kept: Duration) -> Result<()> {
        self.store.fail(claim, failure, kept).await
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

/// Returns a store with records in all states, and a forced step.
pub(crate) async fn store() -> Arc<dyn IdempotencyStore> {
    let store = MemoryStore::new();
    let mut seconds = HashMap::new();
    // Id, operation, scope, age, and what becomes of it.
    let stuck = [
        (
            "ord-2f81c04e",
            "payments.capture",
            "acme-eu",
            5_220,
            "stale",
        ),
        ("ord-77d0b1a9", "payments.capture", "acme-eu", 912, "stale"),
        ("wh-0192ab7f", "webhooks.deliver", "globex", 143, "runs"),
        ("ord-9c5512d3", "payments.create", "acme-us", 41, "runs"),
        ("ord-9c5512e8", "payments.create", "acme-us", 12, "runs"),
        ("inv-2026-1182", "invoices.send", "initech", 7, "runs"),
        ("ord-9c5513aa", "payments.create", "hooli", 2, "runs"),
        (
            "ord-5a19f7c2",
            "payments.create",
            "acme-us",
            730,
            "declined",
        ),
        (
            "ord-41bb0d6e",
            "payments.refund",
            "hooli",
            2_400,
            "idem.abandoned",
        ),
        (
            "inv-2026-1164",
            "invoices.send",
            "globex",
            9_300,
            "smtp.refused",
        ),
    ];
    for (number, (id, operation, scope, age, becomes)) in stuck.into_iter().enumerate() {
        let key = Key::new(scope, operation, id).unwrap();
        seconds.insert(key.clone(), age);
        let metadata = Metadata::new()
            .with("host", format!("worker-{}", number % 4 + 1))
            .with("build", "2026.11.3")
            .with(
                "trace",
                format!("{:016x}", 0x51ab_97c0_33d1_u64 * (number as u64 + 3)),
            );
        let request = ClaimRequest::new(key, Fingerprint::raw(id)).with_metadata(metadata);
        let request = match becomes {
            "stale" => request.with_lease(Duration::from_millis(1)),
            _ => request,
        };
        let claim = store.claim(&request).await.unwrap().acquired().unwrap();
        if !matches!(becomes, "stale" | "runs") {
            let failure = Failure::new(becomes, "the details are in the ticket");
            store.fail(&claim, &failure, DAY).await.unwrap();
        }
    }
    for number in 0..1_840_u64 {
        let id = format!("ord-{:08x}", number * 0x9e37_79b9 % 0xffff_ffff);
        let key = Key::new("acme-us", "payments.create", id).unwrap();
        seconds.insert(key.clone(), number * 11);
        let request = ClaimRequest::new(key, Fingerprint::raw("body"));
        let claim = store.claim(&request).await.unwrap().acquired().unwrap();
        let kept = if number % 20 == 0 {
            Duration::from_millis(1)
        } else {
            DAY
        };
        let response = Response::new(201, vec![b'x'; 640]);
        store.complete(&claim, &response, kept).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let forced = Key::new("acme-eu", "payments.capture", "ord-2f81c04e").unwrap();
    let seen = store.summary(&forced).await.unwrap().unwrap();
    let reason = "worker-1 was killed; no charge at the bank";
    let step = ForcedStep::new(
        forced.clone(),
        seen.token,
        ForcedAction::Release,
        "console:Ada",
        reason,
    );
    store.force(&step.unwrap()).await.unwrap();
    let again = ClaimRequest::new(forced, Fingerprint::raw("again"));
    let again = again.with_lease(Duration::from_millis(1));
    let _ = store.claim(&again).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let aged = Arc::new(Aged { store, seconds });
    let grown = Arc::downgrade(&aged);
    // For the charts: a minute of business.
    tokio::spawn(async move {
        for number in 0..400_u64 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let Some(aged) = grown.upgrade() else { return };
            for part in 0..(number * 7 % 5) {
                let id = format!("new-{number:04x}-{part}");
                let key = Key::new("acme-us", "payments.create", id).unwrap();
                let request = ClaimRequest::new(key, Fingerprint::raw("body"));
                let claim = aged
                    .store
                    .claim(&request)
                    .await
                    .unwrap()
                    .acquired()
                    .unwrap();
                let body = vec![b'x'; 200 + (number * 97 % 900) as usize];
                let response = Response::new(201, body);
                aged.store.complete(&claim, &response, DAY).await.unwrap();
            }
        }
    });
    aged
}

/// Serves metrics that grow, and returns their URL.
pub(crate) async fn metrics() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let began = Instant::now();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let body = page(began.elapsed().as_secs_f64());
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    url
}

fn page(seconds: f64) -> String {
    let mut page = String::new();
    for (decision, rate) in [
        ("new", 212.4),
        ("duplicate", 18.7),
        ("failed", 0.6),
        ("takeover", 0.12),
        ("in_flight", 2.3),
        ("conflict", 0.04),
    ] {
        page += &format!(
            "idem_decisions_total{{operation=\"all\",decision=\"{decision}\"}} {}\n",
            rate * seconds
        );
    }
    for (bound, rate) in [
        ("0.01", 61.0),
        ("0.05", 158.0),
        ("0.25", 204.0),
        ("1", 211.9),
        ("+Inf", 212.4),
    ] {
        page += &format!(
            "idem_first_seen_to_sealed_seconds_bucket{{operation=\"all\",le=\"{bound}\"}} {}\n",
            rate * seconds
        );
    }
    page + "idem_waiters{operation=\"all\"} 4\n"
}
