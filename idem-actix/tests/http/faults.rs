//! A store that cannot be reached, handlers that panic, bodies that break.

use std::time::Duration;

use actix_web::HttpResponse;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use idem_core::engine::InterruptPolicy;
use idem_core::{BusyPolicy, ErrorKind, Idempotency, MemoryStore, Policy};
use idem_http::{HttpPolicy, OnStoreError, ProblemType};

use crate::loopback::{connect, read_to_end};
use crate::store::FailingStore;
use crate::support::{App, layer_on, post};

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
    let app = App::counting(layer_on(Idempotency::new(store).with_policy(endless)));
    app.send(post("a", "{}")).await;
    assert!(app.send(post("a", "{}")).await.is_replayed());
}

#[tokio::test]
async fn an_answer_that_could_not_be_sealed_reaches_its_caller() {
    let store = FailingStore::new(ErrorKind::Unavailable);
    let breaking = store.clone();
    let app = App::new(layer_on(impatient(&store)), move |_| {
        breaking.set_fails(true);
        async {
            let mut response = HttpResponse::Created();
            response.insert_header(("set-cookie", "a=1"));
            response.body("done")
        }
    });
    let answer = app.send(post("a", "{}")).await;
    assert_eq!(
        (answer.status, answer.text()),
        (StatusCode::CREATED, "done")
    );
    assert_eq!(answer.header("set-cookie"), Some("a=1"));
}

/// An application whose handler panics.
fn panicking(idempotency: Idempotency) -> App {
    App::new(layer_on(idempotency), |_| async {
        if true {
            panic!("the handler's own words");
        }
    })
}

#[tokio::test]
async fn a_panic_reaches_the_caller_and_frees_the_key() {
    let app = panicking(Idempotency::new(MemoryStore::new()));
    for runs in 1..3 {
        assert_eq!(app.try_send(post("a", "{}")).await, None);
        assert_eq!(app.runs(), runs);
    }
    let mut stream = connect(app.serve(), "content-length: 2\r\n\r\n{}").await;
    let answer = read_to_end(&mut stream).await;
    assert_eq!(
        answer, "",
        "the connection closes, as without the middleware"
    );
}

#[tokio::test]
async fn a_panic_that_is_recorded_is_never_tried_again() {
    let policy = Policy::default().with_on_panic(InterruptPolicy::Record);
    let idempotency = Idempotency::new(MemoryStore::new()).with_policy(policy);
    let app = panicking(idempotency);
    assert_eq!(app.try_send(post("a", "{}")).await, None);
    let retry = app.send(post("a", "{}")).await;
    assert_eq!(retry.status, StatusCode::INTERNAL_SERVER_ERROR);
    retry.problem(ProblemType::OutcomeUnknown);
    assert!(retry.is_replayed() && retry.header("idempotency-first-answered").is_some());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_panic_of_the_body_is_one_of_the_handler() {
    let policy = Policy::default().with_on_panic(InterruptPolicy::Record);
    let idempotency = Idempotency::new(MemoryStore::new()).with_policy(policy);
    let app = App::new(layer_on(idempotency), |_| async {
        let pieces = stream::iter([1, 2]).then(async |piece| match piece {
            1 => Ok::<_, std::io::Error>(Bytes::from("begun ")),
            _ => panic!("the body's own words"),
        });
        HttpResponse::Ok().streaming(pieces)
    });
    assert_eq!(app.try_send(post("a", "{}")).await, None);
    let retry = app.send(post("a", "{}")).await;
    retry.problem(ProblemType::OutcomeUnknown);
    assert_eq!(app.runs(), 1);
}

fn broken() -> HttpResponse {
    let pieces = [
        Ok(Bytes::from("begun ")),
        Err(std::io::Error::other("broken")),
    ];
    HttpResponse::Ok().streaming(stream::iter(pieces))
}

#[tokio::test]
async fn a_response_that_breaks_off_does_so_for_its_caller_and_frees_the_key() {
    let app = App::new(layer_on(Idempotency::new(MemoryStore::new())), |_| async {
        broken()
    });
    let address = app.serve();
    for runs in 1..3 {
        let mut stream = connect(address, "content-length: 2\r\n\r\n{}").await;
        let answer = read_to_end(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("begun "), "{answer}");
        assert!(!answer.ends_with("0\r\n\r\n"), "it seems whole: {answer}");
        assert_eq!(app.runs(), runs);
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_is_not_made_again_where_work_must_not_run_twice() {
    let idempotency = Idempotency::new(MemoryStore::new()).with_policy(Policy::at_most_once());
    let app = App::new(layer_on(idempotency), |_| async { broken() });
    let mut stream = connect(app.serve(), "content-length: 2\r\n\r\n{}").await;
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let retry = app.send(post("a", "{}")).await;
    retry.problem(ProblemType::OutcomeUnknown);
    assert_eq!(app.runs(), 1);
}
