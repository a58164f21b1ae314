//! The differences between the presets.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use idem_core::{Idempotency, IdempotencyStore, Key, MemoryStore, Policy, Record};
use idem_http::{HttpPolicy, ProblemType};

use crate::support::{App, layer, layer_on, post, request};

#[tokio::test]
async fn each_preset_has_its_status_for_a_reused_key() {
    for (policy, status) in [
        (HttpPolicy::default(), StatusCode::UNPROCESSABLE_ENTITY),
        (HttpPolicy::ietf(), StatusCode::UNPROCESSABLE_ENTITY),
        (HttpPolicy::stripe(), StatusCode::BAD_REQUEST),
        (HttpPolicy::square(), StatusCode::CONFLICT),
        (
            HttpPolicy::ietf().with_reuse_status(StatusCode::IM_A_TEAPOT),
            StatusCode::IM_A_TEAPOT,
        ),
    ] {
        let app = App::counting(layer(policy));
        app.send(post("a", "{}")).await;
        let answer = app.send(post("a", "[]")).await;
        assert_eq!(answer.status, status);
        answer.problem(ProblemType::KeyReused);
        assert_eq!(answer.header("retry-after"), None);
    }
}

#[tokio::test]
async fn stripes_preset_guards_post_only() {
    let app = App::counting(layer(HttpPolicy::stripe()));
    for _ in 0..2 {
        app.send(request("DELETE", "/orders", "a", "")).await;
    }
    assert_eq!(app.runs(), 2);
}

/// Returns how long a record of the preset is kept, while the engine's own policy says an hour.
async fn retention(policy: HttpPolicy) -> Duration {
    let store = Arc::new(MemoryStore::new());
    let engine = Policy::default().with_retention(Duration::from_secs(3600));
    let idempotency = Idempotency::new(Arc::clone(&store)).with_policy(engine);
    let app = App::counting(layer_on(idempotency).with_policy(policy));
    app.send(post("a", "{}")).await;
    let key = Key::new("a", HttpPolicy::DEFAULT_OPERATION, "a").unwrap();
    match store.get(&key).await.unwrap() {
        Some(Record::Completed(completed)) => completed
            .info
            .expires_at
            .saturating_since(completed.sealed_at),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn stripes_preset_keeps_answers_for_24_hours_and_others_as_the_engine_says() {
    assert_eq!(retention(HttpPolicy::stripe()).await.as_secs(), 24 * 3600);
    assert_eq!(retention(HttpPolicy::ietf()).await.as_secs(), 3600);
    assert_eq!(retention(HttpPolicy::square()).await.as_secs(), 3600);
}
