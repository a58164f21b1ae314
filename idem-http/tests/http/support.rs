//! A service behind the layer, and its responses.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use idem_core::{Idempotency, MemoryStore};
use idem_http::{HttpPolicy, IdempotencyLayer, ProblemType};
use serde_json::Value;
use tower::ServiceExt;

/// In these tests a header stands for the authentication's result.
pub(crate) fn account(parts: &Parts) -> Option<String> {
    let account = parts.headers.get("x-account")?;
    account.to_str().ok().map(str::to_owned)
}

pub(crate) fn layer_on(idempotency: Idempotency) -> IdempotencyLayer {
    IdempotencyLayer::new(idempotency, account)
}

pub(crate) fn layer(policy: HttpPolicy) -> IdempotencyLayer {
    layer_on(Idempotency::new(MemoryStore::new())).with_policy(policy)
}

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

/// A response that was read to its end.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
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

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        Some(self.headers.get(name)?.to_str().unwrap())
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns the problem, after checking what every problem has.
    #[track_caller]
    pub(crate) fn problem(&self, kind: ProblemType) -> Value {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["type"], kind.uri());
        assert_eq!(problem["title"], kind.title());
        assert_eq!(problem["status"], self.status.as_u16());
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
        problem
    }
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

/// Removes the header of this name.
pub(crate) fn without(mut request: Request, name: &str) -> Request {
    request.headers_mut().remove(name);
    request
}

/// Sets this header.
pub(crate) fn with(mut request: Request, name: &'static str, value: &str) -> Request {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

/// Adds the headers of OASIS and Azure, with this id.
pub(crate) fn repeatable(request: Request, id: &str) -> Request {
    static SENT: LazyLock<String> = LazyLock::new(|| httpdate::fmt_http_date(SystemTime::now()));
    let request = with(request, "repeatability-request-id", id);
    with(request, "repeatability-first-sent", &SENT)
}

/// Waits for a condition that must come true.
pub(crate) async fn until<F, Fut>(condition: F)
where
    F: Fn() -> Fut + Send + Sync,
    Fut: Future<Output = bool> + Send,
{
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, waiting)
        .await
        .expect("it came in time");
}
