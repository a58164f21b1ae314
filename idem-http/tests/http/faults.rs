//! A store that cannot be reached, handlers that panic, bodies that break.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures_util::{FutureExt, stream};
use http::StatusCode;
use idem_core::engine::InterruptPolicy;
use idem_core::wrappers::protected::{DataKey, KeyRing, Protected};
use idem_core::{BusyPolicy, ErrorKind, Idempotency, IdempotencyStore, MemoryStore, Policy};
use idem_http::{HttpPolicy, OnStoreError, ProblemType};

use crate::store::FailingStore;
use crate::support::{App, layer, layer_on, post};

fn impatient(store: &FailingStore) -> Idempotency {
    let policy = Policy::default()
        .with_retry_timeout(Duration::from_millis(30))
        .with_lease(Duration::from_millis(60));
    Idempotency::new(store.clone()).with_policy(policy)
}

#[tokio::test]
async fn without_the_store_nothing_runs() {
    let store = FailingStore::new(ErrorKind::Unavailable);
    let app = App::counting(layer_on(impatient(&store)));
    store.set_fails(true);
    let answer = app.send(post("a", "{}")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    answer.problem(ProblemType::StoreUnavailable);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(app.runs(), 0);
    store.set_fails(false);
    assert_eq!(app.send(post("a", "{}")).await.text(), "run 1");
}

#[tokio::test]
async fn without_the_store_an_open_route_handles_each_request() {
    let store = FailingStore::new(ErrorKind::Unavailable);
    let policy = HttpPolicy::ietf().with_on_store_error(OnStoreError::Open);
    let app = App::counting(layer_on(impatient(&store)).with_policy(policy));
    store.set_fails(true);
    for run in ["run 1", "run 2"] {
        let answer = app.send(post("a", "{}")).await;
        assert_eq!((answer.status, answer.text()), (StatusCode::CREATED, run));
    }
    store.set_fails(false);
    app.send(post("a", "{}")).await;
    assert!(app.send(post("a", "{}")).await.is_replayed());
}

#[tokio::test]
async fn a_key_that_stays_contended_is_in_flight_on_every_route() {
    for choice in [OnStoreError::Closed, OnStoreError::Open] {
        let store = FailingStore::new(ErrorKind::Contention);
        let policy = HttpPolicy::ietf().with_on_store_error(choice);
        let app = App::counting(layer_on(impatient(&store)).with_policy(policy));
        store.set_fails(true);
        let answer = app.send(post("a", "{}")).await;
        assert_eq!(answer.status, StatusCode::CONFLICT);
        answer.problem(ProblemType::RequestInFlight);
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(app.runs(), 0);
        store.set_fails(false);
        assert_eq!(app.send(post("a", "{}")).await.text(), "run 1");
    }
}

#[tokio::test]
async fn durations_without_end_are_no_panic() {
    let store = FailingStore::new(ErrorKind::Unavailable);
    let endless = Policy::default()
        .with_retry_timeout(Duration::MAX)
        .with_on_busy(BusyPolicy::wait(Duration::MAX));
    let idempotency = Idempotency::new(store).with_policy(endless);
    let app = App::counting(layer_on(idempotency.clone()));
    app.send(post("a", "{}")).await;
    assert!(app.send(post("a", "{}")).await.is_replayed());
    let policy = HttpPolicy::ietf().with_retention(Duration::MAX);
    let app = App::counting(layer_on(idempotency).with_policy(policy));
    let answer = app.send(post("b", "{}")).await;
    answer.problem(ProblemType::Misconfigured);
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn a_store_that_is_wrongly_set_up_closes_open_routes_too() {
    for (kind, problem) in [
        (ErrorKind::Misconfigured, ProblemType::Misconfigured),
        (ErrorKind::Corrupt, ProblemType::OutcomeUnknown),
    ] {
        let store = FailingStore::new(kind);
        let policy = HttpPolicy::ietf().with_on_store_error(OnStoreError::Open);
        let app = App::counting(layer_on(impatient(&store)).with_policy(policy));
        store.set_fails(true);
        let answer = app.send(post("a", "{}")).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        answer.problem(problem);
        assert!(!answer.text().contains("made to fail"), "{}", answer.text());
        assert_eq!(app.runs(), 0);
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_leaves_the_outcome_open() {
    let store = Arc::new(MemoryStore::new());
    let app = |store: Arc<dyn IdempotencyStore>| App::counting(layer_on(Idempotency::new(store)));
    let encrypting = |id| {
        let ring = KeyRing::new(DataKey::new(id, &[7; 32]).unwrap());
        Arc::new(Protected::new(Arc::clone(&store)).with_keys(Arc::new(ring)))
    };
    let writer = app(encrypting("old"));
    assert_eq!(
        writer.send(post("a", "{}")).await.status,
        StatusCode::CREATED
    );
    let damaged = FailingStore::new(ErrorKind::Corrupt);
    damaged.set_fails(true);
    for (reader, problem) in [
        // Its key was taken out of the ring.
        (app(encrypting("new")), ProblemType::Misconfigured),
        (
            app(Arc::clone(&store) as Arc<dyn IdempotencyStore>),
            ProblemType::OutcomeUnknown,
        ),
        (app(Arc::new(damaged)), ProblemType::OutcomeUnknown),
    ] {
        let answer = reader.send(post("a", "{}")).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        let detail = answer.problem(problem)["detail"].to_string();
        assert!(!detail.contains("Nothing was done"), "{detail}");
        assert!(detail.contains("with the same key"), "{detail}");
        assert_eq!(reader.runs(), 0);
    }
}

#[tokio::test]
async fn an_answer_that_could_not_be_sealed_reaches_its_caller() {
    let store = FailingStore::new(ErrorKind::Unavailable);
    let breaking = store.clone();
    let app = App::new(layer_on(impatient(&store)), move |_| {
        breaking.set_fails(true);
        async { (StatusCode::CREATED, [("set-cookie", "a=1")], "done") }
    });
    let answer = app.send(post("a", "{}")).await;
    assert_eq!(
        (answer.status, answer.text()),
        (StatusCode::CREATED, "done")
    );
    assert_eq!(answer.header("set-cookie"), Some("a=1"));
}

async fn panicking(policy: Policy) -> App {
    let idempotency = Idempotency::new(MemoryStore::new()).with_policy(policy);
    let app = App::new(layer_on(idempotency), |_| async {
        if true {
            panic!("the handler's own words");
        }
    });
    let panicked = std::panic::AssertUnwindSafe(app.send(post("a", "{}"))).catch_unwind();
    let panic = panicked.await.expect_err("it panicked");
    assert_eq!(panic.downcast_ref(), Some(&"the handler's own words"));
    app
}

#[tokio::test]
async fn a_panic_reaches_the_caller_and_frees_the_key() {
    let app = panicking(Policy::default()).await;
    let again = std::panic::AssertUnwindSafe(app.send(post("a", "{}"))).catch_unwind();
    assert!(again.await.is_err());
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn a_panic_that_is_recorded_is_never_tried_again() {
    let app = panicking(Policy::default().with_on_panic(InterruptPolicy::Record)).await;
    let retry = app.send(post("a", "{}")).await;
    assert_eq!(retry.status, StatusCode::INTERNAL_SERVER_ERROR);
    retry.problem(ProblemType::OutcomeUnknown);
    assert!(retry.is_replayed() && retry.header("idempotency-first-answered").is_some());
    assert_eq!(app.runs(), 1);
}

fn broken() -> Body {
    let parts = [Ok("begun "), Err(std::io::Error::other("broken"))];
    Body::from_stream(stream::iter(parts))
}

#[tokio::test]
async fn a_response_that_breaks_off_does_so_for_its_caller_and_frees_the_key() {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let app = App::new(layer(HttpPolicy::ietf()), |_| async { broken() });
    for _ in 0..2 {
        let response = app.router.clone().oneshot(post("a", "{}")).await.unwrap();
        let mut body = response.into_body();
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "begun ");
        let error = body.frame().await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "broken");
        assert!(body.frame().await.is_none());
    }
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn a_response_that_breaks_off_is_not_made_again_where_work_must_not_run_twice() {
    let idempotency =
        Idempotency::new(Arc::new(MemoryStore::new())).with_policy(Policy::at_most_once());
    let app = App::new(layer_on(idempotency), |_| async { broken() });
    let response = {
        use tower::ServiceExt;
        app.router.clone().oneshot(post("a", "{}")).await.unwrap()
    };
    assert_eq!(response.status(), StatusCode::OK);
    let retry = app.send(post("a", "{}")).await;
    retry.problem(ProblemType::OutcomeUnknown);
    assert_eq!(app.runs(), 1);
}
