//! A service behind the layer, and its responses.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::{AppendHeaders, IntoResponse, Response};
use http::{HeaderName, StatusCode};
use idem_http::IdempotencyLayer;
use tokio::sync::Semaphore;
use tower::ServiceExt;

pub(crate) use crate::shared::*;

/// A service that counts what it handles.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) router: Router,
    runs: Arc<AtomicUsize>,
}

impl App {
    pub(crate) fn new<F, Fut, R>(layer: IdempotencyLayer, handler: F) -> Self
    where
        F: Fn(Request) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoResponse + 'static,
    {
        Self::arranged(handler, |router| router.layer(layer))
    }

    /// Puts layers around a handler.
    pub(crate) fn arranged<F, Fut, R>(handler: F, arrange: impl FnOnce(Router) -> Router) -> Self
    where
        F: Fn(Request) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoResponse + 'static,
    {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let counted = move |request: Request| {
            count.fetch_add(1, Ordering::SeqCst);
            handler(request)
        };
        Self {
            router: arrange(Router::new().fallback(counted)),
            runs,
        }
    }

    /// Answers every request with `201` and the number of the run.
    pub(crate) fn counting(layer: IdempotencyLayer) -> Self {
        let number = Arc::new(AtomicUsize::new(0));
        Self::new(layer, move |_| {
            let number = number.fetch_add(1, Ordering::SeqCst) + 1;
            async move { (StatusCode::CREATED, format!("run {number}")) }
        })
    }

    /// Answers `done` as soon as this lets it.
    pub(crate) fn gated(layer: IdempotencyLayer, gate: &Arc<Semaphore>) -> Self {
        let gate = Arc::clone(gate);
        Self::new(layer, move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.unwrap().forget();
                "done"
            }
        })
    }

    /// How often the handler was called.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub(crate) async fn send(&self, request: Request) -> Answer {
        let answered: Result<Response, Infallible> = self.router.clone().oneshot(request).await;
        Answer::read(answered.unwrap()).await
    }

    /// Serves on a port of the loopback interface.
    pub(crate) async fn serve(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = self.router.clone();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    pub(crate) async fn until_runs(&self, runs: usize) {
        until(async || self.runs() >= runs).await;
    }
}

impl Answer {
    pub(crate) async fn read(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: to_bytes(body, usize::MAX).await.unwrap(),
        }
    }
}

/// Answers `201` with these headers and this body.
pub(crate) fn created<const N: usize>(
    headers: [(HeaderName, &'static str); N],
    body: Vec<u8>,
) -> impl IntoResponse {
    (StatusCode::CREATED, AppendHeaders(headers), body)
}

/// Answers `204`.
pub(crate) fn no_content() -> impl IntoResponse {
    StatusCode::NO_CONTENT
}

/// A `POST` of JSON to `/orders` by the account `a`, with this key.
pub(crate) fn post(key: &str, body: &'static str) -> Request {
    request("POST", "/orders", key, body)
}

pub(crate) fn request(method: &str, path: &str, key: &str, body: &'static str) -> Request {
    Request::builder()
        .method(method)
        .uri(path)
        .header("x-account", "a")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Body::from(body))
        .unwrap()
}
