//! The time of the first attempt, whose window ends by the age of the record.

use std::time::{Duration, SystemTime};

use axum::extract::Request;
use http::{HeaderName, StatusCode};
use httpdate::fmt_http_date;
use idem_core::engine::InterruptPolicy;
use idem_core::{Idempotency, MemoryStore, Policy};
use idem_http::{FirstSent, HttpPolicy, IDEMPOTENCY_KEY, IdempotencyLayer, KeySource, ProblemType};

use crate::support::{App, layer_on, post, with, without};

const NAME: &str = "repeatability-first-sent";

fn layer(engine: Policy) -> IdempotencyLayer {
    let first_sent = FirstSent::header(HeaderName::from_static(NAME));
    let source = KeySource::header(IDEMPOTENCY_KEY).with_first_sent(first_sent);
    let idempotency = Idempotency::new(MemoryStore::new()).with_policy(engine);
    layer_on(idempotency).with_policy(HttpPolicy::ietf().with_key_source(source))
}

/// A request of a client whose clock is a minute ahead.
fn sent_ahead() -> Request {
    let ahead = SystemTime::now() + Duration::from_secs(60);
    with(post("k", "{}"), NAME, &fmt_http_date(ahead))
}

#[tokio::test]
async fn a_client_whose_clock_is_ahead_is_refused_once_its_answer_is_forgotten() {
    let retention = Duration::from_millis(200);
    let app = App::counting(layer(Policy::default().with_retention(retention)));
    assert_eq!(app.send(sent_ahead()).await.status, StatusCode::CREATED);
    tokio::time::sleep(retention * 2).await;
    let retry = app.send(sent_ahead()).await;
    assert_eq!(retry.status, StatusCode::PRECONDITION_FAILED);
    retry.problem(ProblemType::KeyExpired);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_key_or_a_time_alone_is_refused() {
    let app = App::counting(layer(Policy::default()));
    let alone = app.send(post("k", "{}")).await;
    alone.problem(ProblemType::KeyMalformed);
    let alone = app.send(without(sent_ahead(), "idempotency-key")).await;
    alone.problem(ProblemType::KeyMalformed);
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn a_recorded_failure_stays_as_long_as_an_answer() {
    let engine = Policy::default()
        .with_on_panic(InterruptPolicy::Record)
        .with_retention(Duration::from_secs(3600))
        .with_failure_retention(Duration::from_millis(1));
    let app = App::new(layer(engine), |_| async {
        panic!("the handler's own") as StatusCode
    });
    let first = app.clone();
    let panicked = tokio::spawn(async move { first.send(sent_ahead()).await });
    assert!(panicked.await.is_err());
    tokio::time::sleep(Duration::from_millis(5)).await; // longer than failures are kept otherwise
    app.send(sent_ahead())
        .await
        .problem(ProblemType::OutcomeUnknown);
    assert_eq!(app.runs(), 1);
}
