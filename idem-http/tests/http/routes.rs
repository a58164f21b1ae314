//! Policies by route.

use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use http::StatusCode;
use idem_core::{Idempotency, IdempotencyStore, Key, MemoryStore, Work};
use idem_http::{HttpPolicy, ProblemType, Requirement};
use tower::ServiceExt;

use crate::support::{Answer, App, layer_on, request, without};

#[tokio::test]
async fn each_route_can_have_a_layer_of_its_own() {
    let layer = layer_on(Idempotency::new(MemoryStore::new()));
    let required = HttpPolicy::ietf().with_requirement(Requirement::Required);
    let off = HttpPolicy::ietf().with_requirement(Requirement::Off);
    let router: Router = Router::new()
        .route(
            "/payments",
            post(async || "paid").layer(layer.clone().with_policy(required)),
        )
        .route(
            "/logs",
            post(async || "logged").layer(layer.clone().with_policy(off)),
        )
        .route("/orders", post(async || "ordered").layer(layer));
    for (path, keyed, keyless) in [
        ("/payments", true, 400),
        ("/logs", false, 200),
        ("/orders", true, 200),
    ] {
        let bare = without(request("POST", path, "k", "{}"), "idempotency-key");
        let answer = router.clone().oneshot(bare).await.unwrap();
        assert_eq!(answer.status().as_u16(), keyless, "{path}");
        let key = format!("\"{path}\"");
        let mut last = None;
        for _ in 0..2 {
            let answer = router
                .clone()
                .oneshot(request("POST", path, &key, "{}"))
                .await;
            last = Some(Answer::read(answer.unwrap()).await);
        }
        assert_eq!(last.unwrap().is_replayed(), keyed, "{path}");
    }
}

#[tokio::test]
async fn one_layer_can_choose_the_policy_by_request() {
    let payments = Arc::new(
        HttpPolicy::ietf()
            .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
            .with_operation("payments.create"),
    );
    let store = Arc::new(MemoryStore::new());
    let layer = layer_on(Idempotency::new(Arc::clone(&store))).with_policy_by(move |parts| {
        parts
            .uri
            .path()
            .starts_with("/payments")
            .then(|| Arc::clone(&payments))
    });
    let app = App::counting(layer);
    for path in ["/payments", "/orders"] {
        app.send(request("POST", path, "k", "{}")).await;
    }
    for (path, status) in [
        ("/payments", StatusCode::BAD_REQUEST),
        ("/orders", StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let answer = app.send(request("POST", path, "k", "[]")).await;
        answer.problem(ProblemType::KeyReused);
        assert_eq!(answer.status, status);
    }
    for operation in ["payments.create", "http"] {
        let key = Key::new("a", operation, "k").unwrap();
        assert!(store.get(&key).await.unwrap().is_some(), "{operation}");
    }
}

#[tokio::test]
async fn the_operation_can_be_made_of_the_request() {
    let policy = HttpPolicy::ietf().with_operation_by(|parts| format!("{} http", parts.method));
    let app = App::counting(layer_on(Idempotency::new(MemoryStore::new())).with_policy(policy));
    app.send(request("POST", "/orders", "k", "{}")).await;
    let other = app.send(request("PUT", "/orders", "k", "{}")).await;
    assert_eq!(
        other.text(),
        "run 2",
        "keys of different operations never meet"
    );
    let policy = HttpPolicy::ietf().with_operation("x".repeat(129));
    let app = App::counting(layer_on(Idempotency::new(MemoryStore::new())).with_policy(policy));
    let answer = app.send(request("POST", "/orders", "k", "{}")).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    answer.problem(ProblemType::Misconfigured);
}

#[tokio::test]
async fn the_handler_finds_its_run_in_the_request() {
    let app = App::new(
        layer_on(Idempotency::new(MemoryStore::new())),
        |request: axum::extract::Request| async move {
            let work = request.extensions().get::<Work>().unwrap();
            assert!(!work.is_lost() && work.attempts() == 1);
            format!("{} {}", work.key().id(), work.derive("bank").id())
        },
    );
    let answer = app.send(request("POST", "/orders", "k-1", "{}")).await;
    assert!(answer.text().starts_with("k-1 d1:"), "{}", answer.text());
}
