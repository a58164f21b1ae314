//! Proxies that send a request again, and what they do to it: the page `docs/proxies.md`.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use idem_http::{HttpPolicy, ProblemType, Statuses, presets};
use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;

use crate::loopback::connect;
use crate::support::{App, layer, post, with, without};

/// nginx and HAProxy give up on a connection, and send the same bytes on another one.
#[tokio::test]
async fn a_repeat_while_the_first_runs_waits_unless_the_policy_refuses() {
    let refusing = HttpPolicy::ietf().with_wait(Duration::ZERO);
    for (policy, waits, expected) in [
        (refusing, false, "HTTP/1.1 409"),
        (HttpPolicy::ietf(), true, "HTTP/1.1 200"),
    ] {
        let gate = Arc::new(Semaphore::new(0));
        let app = App::gated(layer(policy), &gate);
        let address = app.serve().await;
        let rest = "connection: close\r\ncontent-length: 2\r\n\r\n{}";
        let first = connect(address, rest).await;
        app.until_runs(1).await;
        drop(first);
        let mut repeat = connect(address, rest).await;
        gate.add_permits(usize::from(waits));
        let mut answer = String::new();
        repeat.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(expected), "{answer}");
        assert_eq!(app.runs(), 1);
    }
}

/// HAProxy's `retry-on 500` with its default of three retries.
#[tokio::test]
async fn an_error_that_a_proxy_retries_runs_again_unless_it_is_stored() {
    let stored = HttpPolicy::ietf().with_kept_statuses(Statuses::all().without_transient());
    for (policy, runs) in [(HttpPolicy::ietf(), 4), (stored, 1)] {
        let app = App::new(layer(policy), |_| async {
            StatusCode::INTERNAL_SERVER_ERROR
        });
        for _ in 0..4 {
            app.send(post("k", "{}")).await;
        }
        assert_eq!(app.runs(), runs);
    }
}

/// CGI and frameworks after it read both names as one; nginx drops the one with underscores.
#[tokio::test]
async fn a_name_with_underscores_is_refused_and_not_ignored() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    for wrong in [
        without(
            with(post("k", "{}"), "idempotency_key", "k"),
            "idempotency-key",
        ),
        with(post("k", "{}"), "idempotency_key", "k"),
    ] {
        let problem = app.send(wrong).await.problem(ProblemType::KeyMalformed);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("hyphens"), "{detail}");
    }
    assert_eq!(app.runs(), 0);
}

/// RFC 8470, 5.2: the client sends it again after the handshake.
#[tokio::test]
async fn a_key_in_early_data_is_too_early() {
    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","_meta":{"idempotencyKey":"k"}}}"#;
    for (policy, body) in [(HttpPolicy::ietf(), "{}"), (presets::mcp(["pay"]), CALL)] {
        let app = App::counting(layer(policy));
        let early = app.send(with(post("k", body), "early-data", "1")).await;
        assert_eq!(early.status, StatusCode::TOO_EARLY, "{}", early.text());
        assert_eq!(app.runs(), 0);
        let again = app.send(post("k", body)).await;
        assert_eq!(again.status, StatusCode::CREATED);
        assert!(!again.is_replayed());
    }
    let app = App::counting(layer(HttpPolicy::ietf()));
    let keyless = without(with(post("k", "{}"), "early-data", "1"), "idempotency-key");
    assert_eq!(app.send(keyless).await.status, StatusCode::CREATED);
}
