//! Bodies over a limit.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use idem_core::{FailedPolicy, Idempotency, MemoryStore, Policy};
use idem_http::{FingerprintRecipe, HttpPolicy, IdempotencyLayer, ProblemType};

use crate::support::{App, layer, layer_on, post, with, without};

fn small() -> HttpPolicy {
    HttpPolicy::ietf()
        .with_max_request_bytes(8)
        .with_max_response_bytes(8)
}

#[tokio::test]
async fn a_request_over_the_limit_is_refused_and_nothing_runs() {
    let app = App::counting(layer(small()));
    assert_eq!(
        app.send(post("fits", "[123456]")).await.status,
        StatusCode::CREATED
    );
    let mut announced = with(post("a", ""), "content-length", "9");
    let never = stream::pending::<Result<Bytes, std::io::Error>>();
    *announced.body_mut() = Body::from_stream(never); // it is not waited for
    for request in [announced, post("a", "[1234567]")] {
        let answer = app.send(request).await;
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
        answer.problem(ProblemType::RequestTooLarge);
    }
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_large_body_is_compared_off_the_thread_that_serves_others() {
    let here = std::thread::current().id();
    let threads = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&threads);
    let recipe = FingerprintRecipe::request().with_text(move |_| {
        noted
            .lock()
            .unwrap()
            .push(std::thread::current().id() == here);
        String::new()
    });
    let app = App::counting(layer(HttpPolicy::ietf().with_fingerprint(recipe)));
    for (key, bytes) in [("a", 10), ("b", 1 << 20)] {
        let mut request = post(key, "");
        *request.body_mut() = format!("\"{}\"", "x".repeat(bytes)).into();
        app.send(request).await;
    }
    assert_eq!(*threads.lock().unwrap(), [true, false]);
}

#[tokio::test]
async fn the_engines_limit_for_requests_holds_too() {
    let engine = Policy::default().with_max_request_bytes(4);
    let idempotency = Idempotency::new(MemoryStore::new()).with_policy(engine);
    let app = App::counting(layer_on(idempotency));
    assert_eq!(
        app.send(post("fits", "[12]")).await.status,
        StatusCode::CREATED
    );
    let answer = app.send(post("a", "[123]")).await;
    answer.problem(ProblemType::RequestTooLarge);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_request_without_a_key_has_no_limit_here() {
    let app = App::counting(layer(small()));
    let request = without(post("a", "[123456789]"), "idempotency-key");
    assert_eq!(app.send(request).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_request_body_that_breaks_off_is_refused_and_nothing_runs() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let parts = [Ok(Bytes::from("{")), Err(std::io::Error::other("gone"))];
    let mut request = post("a", "");
    *request.body_mut() = Body::from_stream(stream::iter(parts));
    let answer = app.send(request).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    answer.problem(ProblemType::RequestUnreadable);
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn the_handler_gets_the_bytes_of_the_request() {
    let app = App::new(
        layer(HttpPolicy::ietf()),
        |request: axum::extract::Request| async {
            assert!(request.extensions().get::<idem_core::Work>().is_some());
            axum::body::to_bytes(request.into_body(), 99).await.unwrap()
        },
    );
    let mut request = post("a", "");
    let chunks = ["{ \"a\"", ": 1 }"].map(Ok::<_, std::io::Error>);
    *request.body_mut() = Body::from_stream(stream::iter(chunks));
    assert_eq!(app.send(request).await.text(), "{ \"a\": 1 }");
}

/// A service that answers with these chunks.
fn answering(layer: IdempotencyLayer, chunks: &'static [&'static str], is_sized: bool) -> App {
    App::new(layer, move |_| async move {
        if is_sized {
            return Body::from(chunks.concat());
        }
        Body::from_stream(stream::iter(chunks).map(|chunk| Ok::<_, std::io::Error>(*chunk)))
    })
}

#[track_caller]
fn assert_not_stored(answer: &crate::support::Answer) {
    assert_eq!(answer.status, StatusCode::GONE);
    answer.problem(ProblemType::ResponseNotStored);
    assert!(answer.is_replayed());
    assert!(answer.header("idempotency-first-answered").is_some());
}

#[tokio::test]
async fn a_response_over_the_limit_reaches_its_caller_and_is_never_made_again() {
    for is_sized in [true, false] {
        let app = answering(layer(small()), &["1234", "5678", "9"], is_sized);
        let first = app.send(post("a", "{}")).await;
        assert_eq!((first.status, first.text()), (StatusCode::OK, "123456789"));
        for _ in 0..2 {
            assert_not_stored(&app.send(post("a", "{}")).await);
        }
        app.send(post("a", "[]"))
            .await
            .problem(ProblemType::KeyReused);
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test]
async fn a_response_at_the_limit_is_stored() {
    for is_sized in [true, false] {
        let app = answering(layer(small()), &["1234", "5678"], is_sized);
        let first = app.send(post("a", "{}")).await;
        let retry = app.send(post("a", "{}")).await;
        assert!(retry.is_replayed());
        assert_eq!((retry.status, retry.text()), (StatusCode::OK, first.text()));
    }
}

#[tokio::test]
async fn a_response_over_the_engines_limit_is_never_made_again_though_failures_are_tried_again() {
    let engine = Policy::default()
        .with_max_result_bytes(64)
        .with_on_failed(FailedPolicy::Retry);
    for (body, header) in [(65, 0), (8, 64)] {
        let idempotency = Idempotency::new(MemoryStore::new()).with_policy(engine.clone());
        let app = App::new(layer_on(idempotency), move |_| async move {
            ([("etag", "x".repeat(header))], "x".repeat(body))
        });
        assert_eq!(app.send(post("a", "{}")).await.body.len(), body);
        assert_not_stored(&app.send(post("a", "{}")).await);
        assert_eq!(app.runs(), 1);
    }
}
