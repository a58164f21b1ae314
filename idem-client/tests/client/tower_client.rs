//! The layer around clients of `tower`.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use idem_client::{Answer, Delivery, ErrorKind, Intent, Protocol};
use tower::{Layer, ServiceExt, service_fn};

use crate::bodies::Stream;
use crate::support::{Act, BODY, Server, all_same, answer, memory, ok, settings};

fn request<B>(url: &str, body: impl Into<B>) -> Request<B> {
    Request::post(url)
        .header("content-type", "application/json")
        .extension(Intent::new("a").unwrap())
        .body(body.into())
        .unwrap()
}

fn delivery<B>(response: &Response<B>) -> Delivery {
    response.extensions().get::<Delivery>().unwrap().clone()
}

#[tokio::test]
async fn a_client_of_hyper_repeats_what_got_lost() {
    let unavailable = answer(503, "", r#"{"type":"urn:idem:problem:store-unavailable"}"#);
    let server = Server::start([Act::Drop, unavailable, answer(200, "", r#"{"a":1}"#)]).await;
    let http = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let client = settings(memory(), Protocol::ietf()).layer(http);
    let response = client
        .clone()
        .oneshot(request(&server.url(), BODY))
        .await
        .unwrap();
    assert_eq!(
        (response.status().as_u16(), delivery(&response).tries),
        (200, 3)
    );
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(text, r#"{"a":1}"#);
    // A repeat is the same, too.
    client.oneshot(request(&server.url(), BODY)).await.unwrap();
    assert_eq!(all_same(&server.seen()), 4);
}

#[tokio::test]
async fn a_server_that_is_down_is_the_source_of_the_error() {
    let server = Server::start([]).await;
    let url = server.url();
    drop(server);
    let http = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let client = settings(memory(), Protocol::ietf()).layer(http);
    let error = client.oneshot(request(&url, BODY)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoAnswer);
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.is::<hyper_util::client::legacy::Error>());
}

#[tokio::test]
async fn a_key_in_the_body_reaches_any_service() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let (seen, calls) = (Arc::clone(&bodies), Arc::new(AtomicU32::new(0)));
    let service = service_fn(move |request: Request<Body>| {
        let (seen, number) = (Arc::clone(&seen), calls.fetch_add(1, Ordering::SeqCst));
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            seen.lock().unwrap().push(body);
            if number == 0 {
                return Err(io::Error::other("lost"));
            }
            let answer = Response::builder().header("content-type", "application/json");
            Ok(answer.body(Body::from(r#"{"replayed":true}"#)).unwrap())
        }
    });
    let client = settings(memory(), Protocol::adcp()).layer(service);
    let response = client.oneshot(request("/tasks", BODY)).await.unwrap();
    let delivery = delivery(&response);
    assert_eq!((delivery.answer, delivery.tries), (Answer::Replayed, 2));
    let bodies = bodies.lock().unwrap();
    assert_eq!(bodies[0], bodies[1]);
    let key = delivery.key.as_str();
    assert_eq!(
        bodies[0],
        format!(r#"{{"idempotency_key":"{key}",{}"#, &BODY[1..])
    );
}

#[tokio::test]
async fn a_stream_is_refused_and_other_methods_pass() {
    let echo = |request: Request<Body>| async move {
        let has_key = request.headers().contains_key("idempotency-key");
        Ok::<_, Infallible>(Response::new(Body::from(has_key.to_string())))
    };
    let client = settings(memory(), Protocol::ietf()).layer(service_fn(echo));
    let stream = Body::new(Stream(Some(Bytes::from_static(b"{}"))));
    let error = client
        .clone()
        .oneshot(request("/", stream))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    let passed = Request::get("/")
        .body(Body::new(Stream(Some(Bytes::from_static(b"{}")))))
        .unwrap();
    let response = client.oneshot(passed).await.unwrap();
    assert!(response.extensions().get::<Delivery>().is_none());
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        "false"
    );
}

#[tokio::test]
async fn errors_of_the_crate_are_those_of_reqwest_s_middleware() {
    let server = Server::start([ok()]).await;
    let http = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let client = settings(memory(), Protocol::ietf()).layer(http);
    client
        .clone()
        .oneshot(request(&server.url(), BODY))
        .await
        .unwrap();
    let error = client
        .oneshot(request(&server.url(), "other"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IntentChanged);
    assert_eq!(server.seen().len(), 1);
}
