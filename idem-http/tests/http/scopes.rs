//! Scopes of keys.

use http::request::Parts;
use http::{HeaderValue, StatusCode};
use idem_core::admin::RecordFilter;
use idem_core::{Idempotency, MemoryStore, RecordAdmin};
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

#[tokio::test]
async fn a_secret_scope_is_stored_as_a_hash_that_needs_the_secret() {
    let store = MemoryStore::new();
    let app = |secret: [u8; 16], scope: &'static str| {
        let idempotency = Idempotency::new(store.clone());
        let layer = IdempotencyLayer::new(idempotency, move |_: &Parts| Some(scope.to_owned()));
        App::counting(layer.with_scope_secret(secret).unwrap())
    };
    let first = app([1; 16], "sk_live_1");
    assert!(!first.send(post("a", "{}")).await.is_replayed());
    let again = app([1; 16], "sk_live_1");
    assert!(again.send(post("a", "{}")).await.is_replayed());
    for other in [app([2; 16], "sk_live_1"), app([1; 16], "sk_live_2\n")] {
        assert!(!other.send(post("a", "{}")).await.is_replayed());
    }
    let page = store.list(&RecordFilter::new(), None, 10).await.unwrap();
    let mut scopes: Vec<_> = page.records.iter().map(|one| one.key.scope()).collect();
    scopes.sort_unstable();
    scopes.dedup();
    assert_eq!(scopes.len(), 3, "{scopes:?}");
    for scope in scopes {
        assert!(scope.starts_with("h1:") && scope.len() == 67, "{scope}");
    }
    let empty = app([1; 16], "").send(post("a", "{}")).await;
    empty.problem(ProblemType::Misconfigured);
    let layer = layer_on(Idempotency::new(MemoryStore::new()));
    assert!(layer.with_scope_secret([1; 15]).is_err());
}
