//! Responses that pass through.

use std::sync::{Arc, Mutex};

use axum::Extension;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use idem_core::engine::observe::Observer;
use idem_core::{Idempotency, Key, MemoryStore, Policy};
use idem_http::{HttpPolicy, Markers, NotStored, ProblemType};

use crate::support::{App, layer, layer_on, post};

fn no_store_beside_other_bytes() -> Response {
    let value = HeaderValue::from_bytes(b"private=\"\xfc\", No-Store").unwrap();
    ([(CACHE_CONTROL, value)], "secret").into_response()
}

fn no_store() -> Response {
    ([(CACHE_CONTROL, "private, No-Store")], "secret").into_response()
}

/// A stream that never ends.
fn images() -> Response {
    let images = stream::repeat("image").map(Ok::<_, std::io::Error>);
    let kind = [(CONTENT_TYPE, "multipart/x-mixed-replace; boundary=x")];
    (kind, Body::from_stream(images)).into_response()
}

fn marked() -> Response {
    let ticks = stream::repeat("x").map(Ok::<_, std::io::Error>);
    (Extension(NotStored), Body::from_stream(ticks)).into_response()
}

fn switching() -> Response {
    (StatusCode::SWITCHING_PROTOCOLS, [("upgrade", "echo")]).into_response()
}

const PASSING: [fn() -> Response; 5] = [
    no_store,
    no_store_beside_other_bytes,
    images,
    marked,
    switching,
];

#[tokio::test]
async fn streams_upgrades_and_no_store_are_not_stored_and_free_the_key() {
    for answer in PASSING {
        let policy = HttpPolicy::ietf().with_respect_for_no_store();
        let app = App::new(layer(policy), move |_| async move { answer() });
        for runs in 1..3 {
            let response = send(&app).await;
            assert_eq!(response.status(), answer().status());
            assert_eq!(response.headers().get("idempotent-replayed"), None);
            let mut body = response.into_body().into_data_stream();
            let is_empty = answer().status() == StatusCode::SWITCHING_PROTOCOLS;
            assert_eq!(
                body.next().await.is_none(),
                is_empty,
                "it is not waited for"
            );
            assert_eq!(app.runs(), runs);
        }
    }
}

#[tokio::test]
async fn where_work_must_not_run_twice_an_answer_passed_through_is_marked() {
    for answer in PASSING {
        let idempotency = Idempotency::new(MemoryStore::new()).with_policy(Policy::at_most_once());
        let policy = HttpPolicy::ietf().with_respect_for_no_store();
        let layer = layer_on(idempotency).with_policy(policy);
        let app = App::new(layer, move |_| async move { answer() });
        assert_eq!(send(&app).await.status(), answer().status());
        let retry = app.send(post("a", "{}")).await;
        assert_eq!(retry.status, StatusCode::GONE);
        retry.problem(ProblemType::ResponseNotStored);
        assert_eq!(app.runs(), 1);
    }
}

/// Frameworks set the header on every answer, and a record is no cache.
#[tokio::test]
async fn no_store_is_stored_unless_the_policy_respects_it() {
    for answer in [no_store, no_store_beside_other_bytes] {
        let app = App::new(layer(HttpPolicy::ietf()), move |_| async move { answer() });
        let first = app.send(post("a", "{}")).await;
        let retry = app.send(post("a", "{}")).await;
        assert!(retry.is_replayed());
        assert_eq!((retry.text(), app.runs()), (first.text(), 1));
    }
}

#[derive(Debug, Clone, Default)]
struct Reasons(Arc<Mutex<Vec<&'static str>>>);

impl Observer for Reasons {
    fn unstored(&self, key: &Key, reason: &'static str) {
        assert_eq!(key.id(), "a");
        self.0.lock().unwrap().push(reason);
    }
}

fn broken() -> Response {
    Body::from_stream(stream::iter([Ok("part"), Err("broken")])).into_response()
}

#[tokio::test]
async fn an_answer_that_is_not_stored_says_why_and_is_counted() {
    const WHY: HeaderName = HeaderName::from_static("idempotency-unstored");
    let unavailable = || StatusCode::SERVICE_UNAVAILABLE.into_response();
    type Handler = fn() -> Response;
    let answers: [(Handler, &str); 8] = [
        (no_store, "no-store"),
        (images, "stream"),
        (marked, "marked"),
        (switching, "upgrade"),
        (unavailable, "status"),
        (broken, "broken"),
        (
            || {
                "x".repeat(HttpPolicy::DEFAULT_MAX_RESPONSE_BYTES + 1)
                    .into_response()
            },
            "too-large",
        ),
        (|| "stored".into_response(), ""),
    ];
    for (answer, why) in answers {
        let policy = HttpPolicy::ietf()
            .with_respect_for_no_store()
            .with_markers(Markers::default().with_unstored(WHY));
        let reasons = Reasons::default();
        let idempotency = Idempotency::new(MemoryStore::new()).with_observer(reasons.clone());
        let layer = layer_on(idempotency).with_policy(policy);
        let app = App::new(layer, move |_| async move { answer() });
        let response = send(&app).await;
        let said = response.headers().get(WHY).map(|why| why.to_str().unwrap());
        assert_eq!(said.unwrap_or_default(), why);
        assert_eq!(reasons.0.lock().unwrap().join(","), why);
    }
}

async fn send(app: &App) -> Response {
    use tower::ServiceExt;
    app.router.clone().oneshot(post("a", "{}")).await.unwrap()
}
