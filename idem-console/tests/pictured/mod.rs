//! A store and a service as they might look on a weekday, for pictures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_core::admin::{ForcedAction, ForcedStep};
use idem_core::{
    ClaimRequest, Failure, Fingerprint, IdempotencyStore, Key, MemoryStore, Metadata, RecordAdmin,
    Response,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const DAY: Duration = Duration::from_secs(86_400);
const MINUTE: Duration = Duration::from_secs(60);

/// Scope, operation and id of each record that is not completed, and what becomes of it.
const STUCK: [(&str, &str, &str, &str); 8] = [
    ("acme-eu", "payments.capture", "ord-2f81c04e", "stale"),
    ("acme-eu", "payments.capture", "ord-77d0b1a9", "stale"),
    ("globex", "webhooks.deliver", "wh-0192ab7f", "runs"),
    ("acme-us", "payments.create", "ord-9c5512d3", "runs"),
    ("initech", "invoices.send", "inv-2026-1182", "runs"),
    ("acme-us", "payments.create", "ord-5a19f7c2", "declined"),
    ("hooli", "payments.refund", "ord-41bb0d6e", "idem.abandoned"),
    ("globex", "invoices.send", "inv-2026-1164", "smtp.refused"),
];

/// Returns a store with records in all states, a forced step, and a minute of business for charts.
pub(crate) async fn store() -> Arc<dyn IdempotencyStore> {
    let store = Arc::new(MemoryStore::new());
    let claimed = async |scope: &str, operation: &str, id: &str, lease| {
        let key = Key::new(scope, operation, id).unwrap();
        let metadata = Metadata::new()
            .with("host", "worker-3")
            .with("build", "2026.11.3");
        let request = ClaimRequest::new(key, Fingerprint::raw(id)).with_metadata(metadata);
        let outcome = store.claim(&request.with_lease(lease)).await;
        outcome.unwrap().acquired().unwrap()
    };
    let moment = Duration::from_millis(1);
    for (scope, operation, id, becomes) in STUCK {
        let lease = if becomes == "stale" { moment } else { MINUTE };
        let claim = claimed(scope, operation, id, lease).await;
        if !matches!(becomes, "stale" | "runs") {
            let failure = Failure::new(becomes, "the details are in the ticket");
            store.fail(&claim, &failure, DAY).await.unwrap();
        }
    }
    for number in 0..400 {
        let id = format!("ord-{number:08x}");
        let claim = claimed("acme-us", "payments.create", &id, MINUTE).await;
        let kept = if number % 20 == 0 { moment } else { DAY };
        let response = Response::new(201, vec![b'x'; 640]);
        store.complete(&claim, &response, kept).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let (scope, operation, id, _) = STUCK[0];
    let key = Key::new(scope, operation, id).unwrap();
    let token = store.summary(&key).await.unwrap().unwrap().token;
    let reason = "worker-1 was killed; no charge at the bank";
    let step = ForcedStep::new(key, token, ForcedAction::Release, "console:Ada", reason);
    store.force(&step.unwrap()).await.unwrap();
    let _ = claimed(scope, operation, id, moment).await;
    let grown = Arc::downgrade(&store);
    tokio::spawn(async move {
        for number in 0..400_usize {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let Some(store) = grown.upgrade() else { return };
            let key = Key::new("acme-us", "payments.create", format!("new-{number:04x}"));
            let request = ClaimRequest::new(key.unwrap(), Fingerprint::raw("body"));
            let claim = store.claim(&request).await.unwrap().acquired().unwrap();
            let response = Response::new(201, vec![b'x'; 200 + number * 97 % 900]);
            store.complete(&claim, &response, DAY).await.unwrap();
        }
    });
    store
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
