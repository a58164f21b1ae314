//! Other layers, outside of the layer and inside of it: each row of the page `layers`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use idem_http::HttpPolicy;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

use crate::support::{App, layer, post, until, with, without};

/// Answers with enough text to compress, after this time.
fn app(time: Duration, arrange: impl FnOnce(Router) -> Router) -> App {
    let handler = move |_| async move {
        tokio::time::sleep(time).await;
        (StatusCode::CREATED, "paid ".repeat(100))
    };
    App::arranged(handler, arrange)
}

fn keys(router: Router) -> Router {
    router.layer(layer(HttpPolicy::ietf()))
}

const AT_ONCE: Duration = Duration::ZERO;

fn impatient(router: Router) -> Router {
    let limit = Duration::from_millis(20);
    router.layer(TimeoutLayer::with_status_code(
        StatusCode::REQUEST_TIMEOUT,
        limit,
    ))
}

#[tokio::test]
async fn a_time_out_outside_leaves_the_answer_to_the_retry() {
    let app = app(Duration::from_millis(200), |router| impatient(keys(router)));
    let first = app.send(post("k", "{}")).await;
    assert_eq!(first.status, StatusCode::REQUEST_TIMEOUT);
    until(async || {
        let retry = app.send(post("k", "{}")).await;
        retry.status == StatusCode::CREATED && retry.is_replayed()
    })
    .await;
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_time_out_inside_cuts_the_work_off_and_is_not_the_answer() {
    let app = app(Duration::from_secs(3600), |router| keys(impatient(router)));
    for runs in 1..3 {
        let answer = app.send(post("k", "{}")).await;
        assert_eq!(answer.status, StatusCode::REQUEST_TIMEOUT);
        assert!(!answer.is_replayed());
        assert_eq!(app.runs(), runs);
    }
}

async fn check(request: Request, next: Next) -> Response {
    match request.headers().contains_key("authorization") {
        true => next.run(request).await,
        false => (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]).into_response(),
    }
}

fn authenticated(router: Router) -> Router {
    router.layer(middleware::from_fn(check))
}

#[tokio::test]
async fn authentication_outside_checks_who_gets_a_replay() {
    let app = app(AT_ONCE, |router| authenticated(keys(router)));
    for authorized in [StatusCode::CREATED, StatusCode::CREATED] {
        let refused = app.send(post("k", "{}")).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
        let answer = app
            .send(with(post("k", "{}"), "authorization", "Bearer t"))
            .await;
        assert_eq!(answer.status, authorized);
    }
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn authentication_inside_does_not_check_it_and_its_challenge_is_not_stored() {
    let app = app(AT_ONCE, |router| keys(authenticated(router)));
    let challenged = app.send(post("k", "{}")).await;
    assert_eq!(challenged.status, StatusCode::UNAUTHORIZED);
    let answer = app
        .send(with(post("k", "{}"), "authorization", "Bearer t"))
        .await;
    assert_eq!(
        (answer.status, answer.is_replayed()),
        (StatusCode::CREATED, false)
    );
    let unchecked = app.send(post("k", "{}")).await;
    assert!(unchecked.is_replayed());
}

fn compressing(router: Router) -> Router {
    router.layer(CompressionLayer::new())
}

async fn codings(app: &App) -> [Option<String>; 2] {
    let zipped = app
        .send(with(post("k", "{}"), "accept-encoding", "gzip"))
        .await;
    let plain = app.send(without(post("k", "{}"), "accept-encoding")).await;
    assert!(plain.is_replayed());
    [zipped, plain].map(|answer| answer.header("content-encoding").map(str::to_owned))
}

#[tokio::test]
async fn compression_outside_follows_each_client_and_inside_the_first_one() {
    let gzip = Some("gzip".to_owned());
    let outside = app(AT_ONCE, |router| compressing(keys(router)));
    assert_eq!(codings(&outside).await, [gzip.clone(), None]);
    let inside = app(AT_ONCE, |router| keys(compressing(router)));
    assert_eq!(codings(&inside).await, [gzip.clone(), gzip]);
}

fn cors(router: Router) -> Router {
    router.layer(CorsLayer::permissive())
}

#[tokio::test]
async fn cors_outside_lets_a_browser_read_replays_and_refusals_and_inside_it_does_not() {
    for (app, is_readable) in [
        (app(AT_ONCE, |router| cors(keys(router))), true),
        (app(AT_ONCE, |router| keys(cors(router))), false),
    ] {
        app.send(with(post("k", "{}"), "origin", "https://shop.example"))
            .await;
        for body in ["{}", "[]"] {
            let answer = app
                .send(with(post("k", body), "origin", "https://shop.example"))
                .await;
            assert_eq!(answer.status.is_success(), body == "{}");
            let allowed = answer.header("access-control-allow-origin");
            assert_eq!(allowed.is_some(), is_readable, "{body}");
        }
    }
}

#[tokio::test]
async fn tracing_outside_sees_every_answer_and_inside_only_the_first() {
    for (is_outside, expected) in [(true, 3), (false, 1)] {
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let traced = move |router: Router| {
            router.layer(TraceLayer::new_for_http().on_response(
                move |_: &Response<_>, _: Duration, _: &tracing::Span| {
                    count.fetch_add(1, Ordering::SeqCst);
                },
            ))
        };
        let app = app(AT_ONCE, |router| match is_outside {
            true => traced(keys(router)),
            false => keys(traced(router)),
        });
        for body in ["{}", "{}", "[]"] {
            app.send(post("k", body)).await;
        }
        assert_eq!(seen.load(Ordering::SeqCst), expected);
    }
}
