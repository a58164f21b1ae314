//! Scopes of keys.

use http::request::Parts;
use http::{HeaderValue, StatusCode};
use idem_core::{Idempotency, MemoryStore};
use idem_http::{IdempotencyLayer, ProblemType, ScopeError, ScopeExtractor};

use crate::support::{App, layer_on, post, without};

fn app_with(scope: impl ScopeExtractor) -> App {
    let idempotency = Idempotency::new(MemoryStore::new());
    App::counting(IdempotencyLayer::new(idempotency, scope))
}

#[tokio::test]
async fn a_key_without_a_caller_is_refused() {
    let app = App::counting(layer_on(Idempotency::new(MemoryStore::new())));
    let answer = app.send(without(post("a", "{}"), "x-account")).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    answer.problem(ProblemType::ScopeUnknown);
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn a_request_without_a_key_needs_no_scope() {
    let app = App::counting(layer_on(Idempotency::new(MemoryStore::new())));
    let request = without(without(post("a", "{}"), "x-account"), "idempotency-key");
    assert_eq!(app.send(request).await.status, StatusCode::CREATED);
}

struct Basic(ScopeError);

impl ScopeExtractor for Basic {
    fn scope(&self, _: &Parts) -> Result<String, ScopeError> {
        Err(self.0.clone())
    }
}

#[tokio::test]
async fn an_extractor_can_require_authentication() {
    let challenge = HeaderValue::from_static("Basic realm=\"api\"");
    let app = app_with(Basic(ScopeError::Unauthenticated(challenge)));
    let answer = app.send(post("a", "{}")).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(
        answer.header("www-authenticate"),
        Some("Basic realm=\"api\"")
    );
    answer.problem(ProblemType::ScopeUnknown);
}

#[tokio::test]
async fn a_scope_that_is_set_up_wrongly_is_the_servers_fault() {
    for app in [
        app_with(Basic(ScopeError::Misconfigured)),
        app_with(|_: &Parts| Some(String::new())),
        app_with(|_: &Parts| Some("x".repeat(256))),
        app_with(|_: &Parts| Some("a\nb".to_owned())),
    ] {
        let answer = app.send(post("a", "{}")).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        answer.problem(ProblemType::Misconfigured);
        assert_eq!(app.runs(), 0);
    }
}
