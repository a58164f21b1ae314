//! What the tests of idem-actix also use.

use std::future::Future;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use idem_core::{Idempotency, MemoryStore};
use idem_http::{HttpPolicy, IdempotencyLayer, ProblemType};
use serde_json::Value;

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

/// A response that was read to its end.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
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

/// Removes the header of this name.
pub(crate) fn without<B>(mut request: Request<B>, name: &str) -> Request<B> {
    request.headers_mut().remove(name);
    request
}

/// Sets this header.
pub(crate) fn with<B>(mut request: Request<B>, name: &'static str, value: &str) -> Request<B> {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

/// Adds the headers of Azure, with this id.
pub(crate) fn repeatable<B>(request: Request<B>, id: &str) -> Request<B> {
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
