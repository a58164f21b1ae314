//! Deliveries as GitHub sends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idem_core::{Bytes, IdempotencyStore, Work};
use idem_webhooks::http::{HeaderValue, Request};
use idem_webhooks::{Answer, Event, Provider, Receiver, Verifier, Version, policy};

pub(crate) fn verifier() -> Verifier {
    Verifier::new(Provider::github(), "secret").unwrap()
}

/// The version is the body's first number, of the source `thing`.
pub(crate) fn versioned(store: impl IdempotencyStore) -> Receiver {
    let version = |event: &Event| {
        let number = event.json::<serde_json::Value>().ok()?["version"].as_u64()?;
        Some(Version::new("thing", number))
    };
    receiver(store).with_versions(version).unwrap()
}

/// Returns a receiver that does not wait long for an unreachable store.
pub(crate) fn receiver(store: impl IdempotencyStore) -> Receiver {
    let store: Arc<dyn IdempotencyStore> = Arc::new(store);
    let policy = policy()
        .with_retry_timeout(Duration::from_millis(60))
        .with_lease(Duration::from_millis(400));
    let idempotency = idem_core::Idempotency::new(Arc::clone(&store)).with_policy(policy);
    Receiver::new(store, verifier(), "octo-org")
        .unwrap()
        .with_idempotency(idempotency)
}

pub(crate) fn delivery(id: &str, body: &str) -> Request<Bytes> {
    let mut delivery = Request::new(Bytes::copy_from_slice(body.as_bytes()));
    verifier().sign(&mut delivery).unwrap();
    let headers = delivery.headers_mut();
    headers.insert("x-github-delivery", HeaderValue::from_str(id).unwrap());
    headers.insert("x-github-event", HeaderValue::from_static("push"));
    delivery
}

/// How often the handler ran to its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handled(Arc<AtomicUsize>);

impl Handled {
    pub(crate) fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) async fn deliver(&self, to: &Receiver, id: &str, body: &str) -> Answer<String> {
        let handler = async |_: Event, _: Work| {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        to.receive(&delivery(id, body), handler).await
    }
}
