//! The layer around services without axum.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use idem_core::{Idempotency, MemoryStore};
use idem_http::{Body, IdempotencyLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

fn request(body: &'static str) -> Request<Full<Bytes>> {
    let request = Request::post("/").header("idempotency-key", "k");
    request.body(Full::from(body)).unwrap()
}

fn layer() -> IdempotencyLayer {
    let everyone = |_: &http::request::Parts| Some("everyone".to_owned());
    IdempotencyLayer::new(Idempotency::new(MemoryStore::new()), everyone)
}

#[tokio::test]
async fn any_service_of_bodies_made_of_bytes_will_do() {
    let echo = service_fn(async |request: Request<Full<Bytes>>| {
        Ok::<_, Infallible>(Response::new(request.into_body()))
    });
    let mut service = layer().layer(echo);
    for is_replayed in [false, true] {
        let response = service
            .ready()
            .await
            .unwrap()
            .call(request("hello"))
            .await
            .unwrap();
        assert_eq!(
            response.headers().contains_key("idempotent-replayed"),
            is_replayed
        );
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "hello");
    }
}

#[tokio::test]
async fn a_body_of_another_kind_is_wrapped_before_the_layer() {
    let echo = service_fn(async |request: Request<Body<Full<Bytes>>>| {
        Ok::<_, Infallible>(Response::new(request.into_body()))
    });
    let service = layer().layer(echo);
    let wrapped = request("hello").map(Body::new);
    let body = service.oneshot(wrapped).await.unwrap().into_body();
    assert_eq!(body.collect().await.unwrap().to_bytes(), "hello");
}

#[tokio::test]
async fn an_error_of_the_service_is_given_on_and_frees_the_key() {
    let failing = service_fn(async |_: Request<Full<Bytes>>| {
        Err::<Response<Full<Bytes>>, _>(std::io::Error::other("its own"))
    });
    let mut service = layer().layer(failing);
    for _ in 0..2 {
        let error = service
            .ready()
            .await
            .unwrap()
            .call(request(""))
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "its own");
    }
}

#[tokio::test]
async fn trailers_reach_the_first_caller_and_are_not_replayed() {
    let with_trailers = service_fn(async |_: Request<Full<Bytes>>| {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("digest", "x".parse().unwrap());
        let body = Full::from("hello").with_trailers(async { Some(Ok::<_, Infallible>(trailers)) });
        Ok::<_, Infallible>(Response::new(body))
    });
    let mut service = layer().layer(with_trailers);
    for has_trailers in [true, false] {
        let response = service
            .ready()
            .await
            .unwrap()
            .call(request(""))
            .await
            .unwrap();
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().is_some(), has_trailers);
        assert_eq!(body.to_bytes(), "hello");
    }
}

#[test]
fn without_a_runtime_the_request_is_refused() {
    let echo = service_fn(async |request: Request<Full<Bytes>>| {
        Ok::<_, Infallible>(Response::new(request.into_body()))
    });
    let answering = layer().layer(echo).oneshot(request("hello"));
    let response = futures_util::FutureExt::now_or_never(answering)
        .unwrap()
        .unwrap();
    assert_eq!(response.status(), 500);
}
