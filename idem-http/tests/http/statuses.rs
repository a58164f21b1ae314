//! Which statuses are stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use http::StatusCode;
use idem_core::{Idempotency, MemoryStore, Policy};
use idem_http::{HttpPolicy, IdempotencyLayer, Statuses, presets};

use crate::support::{App, layer, layer_on, post, repeatable};

/// Answers with this status first and `200` from then on.
fn answering(layer: IdempotencyLayer, first: u16) -> App {
    let next = Arc::new(AtomicU16::new(first));
    App::new(layer, move |_| {
        let status = StatusCode::from_u16(next.swap(200, Ordering::SeqCst)).unwrap();
        async move { (status, status.as_str().to_owned()) }
    })
}

async fn is_kept(layer: IdempotencyLayer, status: u16) -> bool {
    let app = answering(layer, status);
    let first = app.send(post("a", "{}")).await;
    assert_eq!(
        (first.status.as_u16(), first.text()),
        (status, status.to_string().as_str())
    );
    let retry = app.send(post("a", "{}")).await;
    if retry.is_replayed() {
        assert_eq!((retry.status, retry.body), (first.status, first.body));
    }
    app.runs() == 1
}

#[tokio::test]
async fn answers_from_2xx_to_4xx_are_kept() {
    for status in [200, 201, 202, 303, 400, 404, 409, 418, 422, 499] {
        assert!(is_kept(layer(HttpPolicy::ietf()), status).await, "{status}");
    }
}

#[tokio::test]
async fn after_an_error_that_may_pass_the_key_is_free_again() {
    for status in [401, 407, 408, 421, 423, 425, 429, 500, 502, 503, 504, 599] {
        assert!(
            !is_kept(layer(HttpPolicy::ietf()), status).await,
            "{status}"
        );
    }
}

#[tokio::test]
async fn presets_release_errors_that_may_pass() {
    for (policy, also) in [
        (presets::stripe(), 403),
        (presets::adyen(), 403),
        (presets::azure(), 421),
    ] {
        let kept = format!("{policy:?}");
        for status in [401, 408, 423, 425, also] {
            let app = answering(layer(policy.clone()), status);
            let send = || app.send(repeatable(post("a", "{}"), "8e03978e"));
            assert_eq!(send().await.status, status, "{kept}");
            assert_eq!(send().await.status, 200, "{status} {kept}");
        }
    }
}

#[tokio::test]
async fn which_statuses_are_kept_is_policy() {
    let only_success = HttpPolicy::ietf().with_kept_statuses(Statuses::none().with(200..=299));
    assert!(!is_kept(layer(only_success), 404).await);
    let all = HttpPolicy::ietf().with_kept_statuses(Statuses::all());
    assert!(is_kept(layer(all), 503).await);
}

#[tokio::test]
async fn work_that_must_not_run_twice_keeps_every_status() {
    let idempotency = Idempotency::new(MemoryStore::new()).with_policy(Policy::at_most_once());
    assert!(is_kept(layer_on(idempotency), 503).await);
}
