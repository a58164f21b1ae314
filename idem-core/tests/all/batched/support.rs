//! Helpers that the cases share.

use std::sync::Arc;
use std::time::Duration;

use idem_core::wrappers::Batched;
use idem_core::{Claim, ClaimOutcome, ClaimRequest, Fingerprint, IdempotencyStore, Key, Result};
use tokio::task::JoinHandle;

use super::gated::Gated;

pub(crate) const MINUTES: Duration = Duration::from_secs(600);

pub(crate) type Shared = Arc<Batched<Gated>>;

/// Returns a closed store behind one lane, configured further by `set`.
pub(crate) fn shared(set: impl FnOnce(Batched<Gated>) -> Batched<Gated>) -> (Gated, Shared) {
    let store = Gated::closed();
    let batched = Batched::new(store.clone()).with_lanes(1);
    (store, Arc::new(set(batched)))
}

pub(crate) fn request(id: &str) -> ClaimRequest {
    fingerprinted(id, "one")
}

pub(crate) fn fingerprinted(id: &str, fingerprint: &str) -> ClaimRequest {
    let key = Key::new("tenant", "pay", id).unwrap();
    ClaimRequest::new(key, Fingerprint::raw(fingerprint)).with_lease(MINUTES)
}

pub(crate) type Caller = JoinHandle<Result<ClaimOutcome>>;

pub(crate) fn claims(store: &Shared, request: ClaimRequest) -> Caller {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.claim(&request).await })
}

/// Sends the claims of these keys one after the other; the first of them is under way.
pub(crate) async fn queue_up(store: &Gated, shared: &Shared, ids: &[&str]) -> Vec<Caller> {
    let before = store.calls().len();
    let mut callers = Vec::new();
    for id in ids {
        callers.push(claims(shared, request(id)));
        settled().await;
    }
    store.until_calls(before + 1).await;
    callers
}

/// Waits until the spawned tasks can go no further: all run on this thread.
pub(crate) async fn settled() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn acquired(caller: Caller) -> Claim {
    let outcome = caller.await.unwrap().unwrap();
    outcome.acquired().expect("the key was free")
}

/// Asserts that the claim was granted.
pub(crate) async fn granted(caller: Caller) {
    let _held = acquired(caller).await;
}

pub(crate) async fn name(caller: Caller) -> &'static str {
    caller.await.unwrap().unwrap().name()
}
