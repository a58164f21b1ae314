//! A protected store, and the bare one behind it.

use std::sync::Arc;
use std::time::Duration;

use idem_core::wrappers::Protected;
use idem_core::wrappers::protected::{DataKey, KeyRing};
use idem_core::{
    Claim, ClaimRequest, Failure, Fingerprint, IdempotencyStore, Key, MemoryStore, Metadata,
    Record, Response,
};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// What nothing stored may show.
pub(crate) const SECRET: &str = "SECRET-4242";

pub(crate) fn data_key(id: &str) -> DataKey {
    let byte = id.bytes().fold(1, u8::wrapping_add);
    DataKey::new(id, &[byte; 32]).unwrap()
}

/// A ring of these keys; the first is current.
pub(crate) fn ring(ids: &[&str]) -> Arc<KeyRing> {
    let ring = KeyRing::new(data_key(ids[0]));
    for id in &ids[1..] {
        ring.add(data_key(id)).unwrap();
    }
    Arc::new(ring)
}

pub(crate) fn under(store: &MemoryStore, ids: &[&str]) -> Protected<MemoryStore> {
    Protected::new(store.clone()).with_keys(ring(ids))
}

pub(crate) fn key(id: &str) -> Key {
    Key::new("tenant", "cards.create", id).unwrap()
}

pub(crate) fn request(id: &str) -> ClaimRequest {
    ClaimRequest::new(key(id), Fingerprint::raw("request"))
        .with_metadata(Metadata::new().with("host", SECRET))
}

pub(crate) async fn claimed<S: IdempotencyStore>(store: &S, request: &ClaimRequest) -> Claim {
    store.claim(request).await.unwrap().acquired().unwrap()
}

pub(crate) fn response() -> Response {
    Response::new(201, format!(r#"{{"token": "{SECRET}", "id": 7}}"#)).with_header("x-a", SECRET)
}

pub(crate) fn failure() -> Failure {
    Failure::new("declined", SECRET).with_details(SECRET)
}

/// Returns the stored record of the key, all of it as text.
pub(crate) async fn stored(store: &MemoryStore, id: &str) -> String {
    let record = store.get(&key(id)).await.unwrap().unwrap();
    let bytes = match &record {
        Record::Completed(record) => record.response.body().to_vec(),
        Record::Failed(record) => record.failure.details().to_vec(),
        Record::InFlight(_) => Vec::new(),
    };
    let json = serde_json::to_string(&record).unwrap();
    format!("{json} {}", String::from_utf8_lossy(&bytes))
}

/// Claims a key, and keeps it.
pub(crate) async fn hold<S: IdempotencyStore>(store: &S, request: &ClaimRequest) {
    drop(claimed(store, request).await);
}
