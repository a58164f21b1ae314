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
use idem_http::{HttpPolicy, NotStored, OnDisconnect};
use tokio::sync::Semaphore;

use crate::support::{App, layer, post, send_to, until};

fn no_store() -> HttpResponse {
    let mut response = HttpResponse::Ok();
    response.insert_header(("cache-control", "private, No-Store"));
    response.body("secret")
}

/// A stream that never ends.
fn images() -> HttpResponse {
    let images = stream::repeat("image").map(|image| Ok::<_, std::io::Error>(image.into()));
    HttpResponse::Ok()
        .content_type("multipart/x-mixed-replace; boundary=x")
        .streaming(images)
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

const PASSING: [fn() -> HttpResponse; 4] = [no_store, images, marked, switching];

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

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[tokio::test]
async fn a_client_that_disconnects_ends_a_stream_only_where_the_policy_says_so() {
    for choice in [OnDisconnect::Cancel, OnDisconnect::Finish] {
        let (is_dropped, gate) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Semaphore::new(0)),
        );
        let (flag, waits) = (Arc::clone(&is_dropped), Arc::clone(&gate));
        let policy = HttpPolicy::ietf().with_on_disconnect(choice);
        let app = App::new(layer(policy), move |_| {
            let (guard, gate) = (Dropped(Arc::clone(&flag)), Arc::clone(&waits));
            async move {
                let pieces = stream::iter(["data: 1\n\n", "data: 2\n\n"]).then(move |piece| {
                    let (gate, _) = (Arc::clone(&gate), &guard);
                    async move {
                        if piece.contains('2') {
                            gate.acquire().await.unwrap().forget();
                        }
                        Ok::<_, std::io::Error>(Bytes::from(piece))
                    }
                });
                HttpResponse::Ok()
                    .content_type("text/event-stream")
                    .streaming(pieces)
            }
        });
        assert_eq!(begin(&app).await, (StatusCode::OK, false));
        if choice == OnDisconnect::Finish {
            gate.add_permits(1);
        }
        until(async || is_dropped.load(SeqCst)).await;
        gate.add_permits(1);
        let retry = app.send(post("a", "{}")).await;
        assert_eq!(retry.text(), "data: 1\n\ndata: 2\n\n");
        let runs = if retry.is_replayed() { 1 } else { 2 };
        assert_eq!(
            (choice == OnDisconnect::Finish, app.runs()),
            (runs == 1, runs)
        );
    }
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
