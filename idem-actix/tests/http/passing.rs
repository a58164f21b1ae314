//! Responses that pass through.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use actix_web::HttpResponse;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use idem_core::{Idempotency, MemoryStore, Policy};
use idem_http::{HttpPolicy, NotStored, ProblemType};

use crate::support::{App, layer, layer_on, post, send_to, until};

fn no_store() -> HttpResponse {
    let mut response = HttpResponse::Ok();
    response.insert_header(("cache-control", "private, No-Store"));
    response.body("secret")
}

/// A stream that never ends.
fn events() -> HttpResponse {
    let ticks = stream::repeat("data: tick\n\n").map(|tick| Ok::<_, std::io::Error>(tick.into()));
    HttpResponse::Ok()
        .content_type("text/event-stream; charset=utf-8")
        .streaming(ticks)
}

fn marked() -> HttpResponse {
    let ticks = stream::repeat("x").map(|tick| Ok::<_, std::io::Error>(Bytes::from(tick)));
    let mut response = HttpResponse::Ok().streaming(ticks);
    response.extensions_mut().insert(NotStored);
    response
}

fn switching() -> HttpResponse {
    HttpResponse::SwitchingProtocols().upgrade("echo").finish()
}

const PASSING: [fn() -> HttpResponse; 4] = [no_store, events, marked, switching];

/// Sends a request, reads the first piece of the answer, and disconnects.
async fn begin(app: &App) -> (StatusCode, bool) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let mut request = post("a", "{}");
    *request.uri_mut() = format!("http://{}/orders", app.serve()).parse().unwrap();
    let response = client.request(request).await.unwrap();
    assert_eq!(response.headers().get("idempotent-replayed"), None);
    let status = response.status();
    let is_empty = match status {
        StatusCode::SWITCHING_PROTOCOLS => true,
        _ => response.into_body().frame().await.is_none(),
    };
    (status, is_empty)
}

#[tokio::test]
async fn streams_upgrades_and_no_store_are_not_stored_and_free_the_key() {
    for answer in PASSING {
        let policy = HttpPolicy::ietf().with_respect_for_no_store();
        let app = App::new(layer(policy), move |_| async move { answer() });
        for runs in 1..3 {
            let (status, is_empty) = begin(&app).await;
            assert_eq!(status.as_u16(), answer().status().as_u16());
            assert_eq!(is_empty, status == StatusCode::SWITCHING_PROTOCOLS);
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
        assert_eq!(begin(&app).await.0.as_u16(), answer().status().as_u16());
        let retry = app.send(post("a", "{}")).await;
        assert_eq!(retry.status, StatusCode::GONE);
        retry.problem(ProblemType::ResponseNotStored);
        assert_eq!(app.runs(), 1);
    }
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_client_disconnects() {
    let is_dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_dropped);
    let app = App::new(layer(HttpPolicy::ietf()), move |_| {
        let guard = Dropped(Arc::clone(&flag));
        async move {
            let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from("data: 1\n\n"))]);
            let open = first
                .chain(stream::pending())
                .inspect(move |_| assert!(!guard.0.load(SeqCst)));
            HttpResponse::Ok()
                .content_type("text/event-stream")
                .streaming(open)
        }
    });
    begin(&app).await;
    until(async || is_dropped.load(SeqCst)).await;
}

#[tokio::test]
async fn a_response_has_the_same_framing_as_without_the_middleware() {
    for (answer, expected) in [
        (HttpResponse::Ok as fn() -> _, Some("0")),
        (HttpResponse::NoContent, None),
        (HttpResponse::NotModified, None),
    ] {
        let keyed = App::new(layer(HttpPolicy::ietf()), move |_| async move {
            let mut answer = answer();
            answer.finish()
        });
        let address = keyed.serve();
        let bare = crate::support::without(post("a", "{}"), "idempotency-key");
        for request in [bare, post("a", "{}"), post("a", "{}")] {
            let answer = send_to(address, request).await.unwrap();
            assert_eq!(answer.header("content-length"), expected, "{answer:?}");
            assert_eq!(answer.header("transfer-encoding"), None, "{answer:?}");
        }
        assert_eq!(keyed.runs(), 2);
    }
}
