//! What the clients of public protocols send, and what they need.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use http::{HeaderName, StatusCode};
use idem_http::{HttpPolicy, KeySource, ProblemType, presets};
use tokio::sync::Semaphore;

use crate::support::{App, layer, post, request, with, without};

const ID: &str = "0190f3c2-6f5d-7cc3-98c4-dc0c0c073991";

fn bare(path: &str, body: &'static str) -> Request {
    without(request("POST", path, "unused", body), "idempotency-key")
}

/// Sends both, and returns whether the second one got the first one's answer.
async fn repeats(app: &App, first: Request, second: Request) -> bool {
    let first = app.send(first).await;
    let second = app.send(second).await;
    assert!(first.status.is_success(), "{}", first.text());
    assert!(second.status.is_success(), "{}", second.text());
    first.text() == second.text()
}

#[tokio::test]
async fn googles_clients_send_the_id_in_body_or_query_in_either_spelling() {
    let app = App::counting(layer(presets::aip155()));
    let in_body = [
        r#"{"requestId":"0190f3c2-6f5d-7cc3-98c4-dc0c0c073990"}"#,
        r#"{"request_id":"0190f3c2-6f5d-7cc3-98c4-dc0c0c073992"}"#,
    ];
    for body in in_body {
        assert!(repeats(&app, bare("/v1/books", body), bare("/v1/books", body)).await);
    }
    for (name, last) in [("requestId", 4), ("request_id", 5)] {
        let path = format!("/v1/books?{name}=0190f3c2-6f5d-7cc3-98c4-dc0c0c07399{last}");
        assert!(repeats(&app, bare(&path, "{}"), bare(&path, "{}")).await);
    }
    let other = "/v1/books?requestId=0190f3c2-6f5d-7cc3-98c4-dc0c0c073993";
    let twice = format!("/v1/books?requestId={ID}&requestId={ID}");
    for (path, body) in [(other, in_body[0]), (&twice, "{}")] {
        let answer = app.send(bare(path, body)).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    }
}

#[tokio::test]
async fn awss_clients_send_the_token_in_body_query_or_form() {
    let app = App::counting(layer(presets::aws("/ClientToken")));
    let json = |target: &str, body| {
        let request = with(bare("/", body), "x-amz-target", target);
        with(request, "content-type", "application/x-amz-json-1.1")
    };
    let (one, reordered) = (
        r#"{"ClientToken":"t","Amount":5}"#,
        r#"{"Amount":5,"ClientToken":"t"}"#,
    );
    assert!(
        repeats(
            &app,
            json("S.Associate", one),
            json("S.Associate", reordered)
        )
        .await
    );
    // Another operation with the same token is another request.
    assert!(!repeats(&app, json("S.Associate", one), json("S.Disassociate", one)).await);
    let long = format!("/functions?clientToken={}", "t".repeat(128));
    assert!(repeats(&app, bare(&long, "{}"), bare(&long, "{}")).await);
    let path = "/functions?clientToken=t2";
    assert!(repeats(&app, bare(path, "{}"), bare(path, "{}")).await);
    let form = |body| {
        with(
            bare("/", body),
            "content-type",
            "application/x-www-form-urlencoded; charset=utf-8",
        )
    };
    let run = "Action=RunInstances&ClientToken=t3&MinCount=1";
    assert!(repeats(&app, form(run), form(run)).await);
    let other = form("Action=RunInstances&ClientToken=t3&MinCount=2");
    // A body in which another reader may find a token does not pass.
    let gzip = with(form(run), "content-encoding", "gzip");
    for refused in [other, gzip, form("{\"ClientToken\":\"t4\"")] {
        assert_eq!(app.send(refused).await.status, StatusCode::BAD_REQUEST);
    }
    // Without a token each runs.
    assert!(!repeats(&app, form("Action=Stop"), form("Action=Stop")).await);
    for name in [
        "x-amz-client-token",
        "x-amzn-client-token",
        "x-client-token",
        "client-token",
    ] {
        let header = || with(bare("/", "{}"), name, "a;b");
        assert!(repeats(&app, header(), header()).await, "{name}");
    }
    let kebab = "/clusters?client-token=t5";
    assert!(repeats(&app, bare(kebab, "{}"), bare(kebab, "{}")).await);
}

#[tokio::test]
async fn awss_clients_read_the_names_of_the_service_in_json_or_xml() {
    let names = presets::aws_errors("ConflictException", "IdempotencyException");
    let service = presets::aws("/token").with_refusals(names);
    let json = [r#"{"token":"t","a":1}"#, r#"{"token":"t","a":2}"#];
    let form = ["token=t&a=1", "token=t&a=2"];
    for (policy, kind, [first, other], expected) in [
        (
            service,
            "application/x-amz-json-1.1",
            json,
            "\"__type\":\"ConflictException\"",
        ),
        (
            presets::aws("/token"),
            "application/x-www-form-urlencoded",
            form,
            "<Response><Errors><Error><Code>IdempotentParameterMismatch</Code><Message>This",
        ),
    ] {
        let app = App::counting(layer(policy));
        app.send(with(bare("/", first), "content-type", kind)).await;
        let refused = app.send(with(bare("/", other), "content-type", kind)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(refused.text().contains(expected), "{}", refused.text());
    }
}

/// A retry encodes a form anew, and chooses another boundary.
#[tokio::test]
async fn forms_are_the_same_however_they_are_written() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let pairs = "application/x-www-form-urlencoded";
    let parts = |boundary| match boundary {
        "one" => "--one\r\ncontent-disposition: form-data; name=x\r\n\r\n1\r\n--one--\r\n",
        _ => "--two\r\ncontent-disposition: form-data; name=x\r\n\r\n1\r\n--two--\r\n",
    };
    let (a, b) = (
        "multipart/form-data; boundary=one",
        "multipart/form-data; boundary=\"two\"",
    );
    for (key, first, second, is_same) in [
        ("k1", (pairs, "a=x+y&b="), (pairs, "a=x%20y&b"), true),
        ("k2", (pairs, "a=1&b=2"), (pairs, "a=1&b=3"), false),
        ("k3", (a, parts("one")), (b, parts("two")), true),
        (
            "k4",
            (a, parts("one")),
            (a, "--one\r\n\r\n1\r\n--one--"),
            false,
        ),
    ] {
        let send = |(kind, body)| app.send(with(post(key, body), "content-type", kind));
        assert_eq!(send(first).await.status, StatusCode::CREATED);
        let retry = send(second).await;
        assert_eq!(retry.is_replayed(), is_same, "{key}: {}", retry.text());
    }
}

#[tokio::test]
async fn azures_clients_may_send_no_time_of_the_first_attempt() {
    let app = App::counting(layer(presets::azure()));
    let chat = || with(bare("/chat/threads", "{}"), "repeatability-request-id", ID);
    assert!(repeats(&app, chat(), chat()).await);
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let time = with(bare("/", "{}"), "repeatability-first-sent", date);
    assert_eq!(app.send(time).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn stripes_v2_has_keys_on_delete_and_runs_a_failed_request_again() {
    let app = App::new(layer(presets::stripe_v2()), |request: Request| async move {
        match request.uri().path() {
            "/v2/failing" => StatusCode::PAYMENT_REQUIRED,
            _ => StatusCode::NO_CONTENT,
        }
    });
    for (path, runs) in [("/v2/accounts", 1), ("/v2/failing", 3)] {
        for _ in 0..2 {
            app.send(request("DELETE", path, path, "")).await;
        }
        assert_eq!(app.runs(), runs, "{path}");
    }
}

#[tokio::test]
async fn a_source_of_several_places_needs_one_key_in_all() {
    let source = KeySource::member("/id").or(KeySource::header(HeaderName::from_static("x-id")));
    let app = App::counting(layer(HttpPolicy::ietf().with_key_source(source)));
    let both = |key| with(bare("/", r#"{"id":"a"}"#), "x-id", key);
    assert!(repeats(&app, both("a"), both("a")).await);
    assert!(repeats(&app, bare("/", r#"{"id":"a"}"#), both("a")).await);
    app.send(both("b")).await.problem(ProblemType::KeyMalformed);
}

#[tokio::test]
async fn stripes_clients_send_any_text_and_name_the_account() {
    let app = App::counting(layer(presets::stripe()));
    for key in ["order 5", "a;b", r#"{"a":1}"#, "?1"] {
        assert!(
            repeats(&app, post(key, "a=1"), post(key, "a=1")).await,
            "{key}"
        );
    }
    for name in ["stripe-account", "stripe-context"] {
        let of = |account| with(post("k", "a=1"), name, account);
        assert!(!repeats(&app, of("acct_1"), of("acct_2")).await, "{name}");
        assert!(repeats(&app, of("acct_1"), of("acct_1")).await, "{name}");
    }
}

#[tokio::test]
async fn a_tenant_of_a2a_has_keys_of_its_own() {
    let app = App::counting(layer(presets::a2a()));
    let one = r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"tenant":"a","message":{"messageId":"m"}}}"#;
    let other = r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"tenant":"b","message":{"messageId":"m"}}}"#;
    assert!(!repeats(&app, bare("/", one), bare("/", other)).await);
}

/// Each event of such a stream is an answer with the id of the call.
#[tokio::test]
async fn a_message_of_a2a_is_handled_once_as_a_stream_and_over_rest() {
    let events = |id: u32| {
        let event = |kind| {
            let result = format!(r#""jsonrpc":"2.0","result":{{"kind":"{kind}"}}"#);
            format!("data: {{\"id\":{id},{result}}}\r\n\r\n")
        };
        ["task", "status-update"].map(event).concat()
    };
    let call = |id: u32, method: &str| {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"message":{{"messageId":"{method}"}}}}}}"#
        );
        bare("/", Box::leak(body.into_boxed_str()))
    };
    for method in ["message/stream", "SendStreamingMessage"] {
        let app = App::new(layer(presets::a2a()), move |_| async move {
            ([("content-type", "text/event-stream")], events(1))
        });
        for id in [1, 2] {
            let answer = app.send(call(id, method)).await;
            assert_eq!(answer.header("content-type"), Some("text/event-stream"));
            assert_eq!(answer.text(), events(id));
        }
        assert_eq!(app.runs(), 1, "{method}");
    }
    let app = App::counting(layer(presets::a2a_rest()));
    let send = |body| bare("/message:send", body);
    let one = r#"{"message":{"messageId":"m"}}"#;
    assert!(repeats(&app, send(one), send(one)).await);
    for refused in [
        r#"{"message":{"messageId":"m","a":1}}"#,
        r#"{"message":{}}"#,
    ] {
        let refused = app.send(send(refused)).await;
        assert!(
            refused.text().contains("INVALID_ARGUMENT"),
            "{}",
            refused.text()
        );
    }
}

#[tokio::test]
async fn mcps_clients_can_set_the_key_in_the_calls_meta() {
    let app = App::counting(layer(presets::mcp(["pay"])));
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","_meta":{"idempotencyKey":"k1"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","idempotencyKey":"k2"}}"#,
    ] {
        assert!(
            repeats(&app, bare("/", body), bare("/", body)).await,
            "{body}"
        );
    }
}

/// Clients take `409` for a commit that failed, and delete its files.
#[tokio::test]
async fn a_commit_of_iceberg_in_flight_is_503_and_never_409() {
    let gate = Arc::new(Semaphore::new(0));
    let app = App::gated(layer(presets::iceberg().with_wait(Duration::ZERO)), &gate);
    let first = tokio::spawn({
        let app = app.clone();
        async move { app.send(post(ID, "{}")).await }
    });
    app.until_runs(1).await;
    let answer = app.send(post(ID, "{}")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("retry-after"), Some("1"));
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().text(), "done");
}

/// azure-core polls the operation that `Operation-Location` names.
#[tokio::test]
async fn a_replay_has_the_headers_of_the_handler() {
    const LOCATION: &str = "operation-location";
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        (StatusCode::ACCEPTED, [(LOCATION, "/operations/7")])
    });
    app.send(post("k", "{}")).await;
    let retry = app.send(post("k", "{}")).await;
    assert!(retry.is_replayed());
    assert_eq!(retry.header(LOCATION), Some("/operations/7"));
}

#[tokio::test]
async fn a_success_of_adcp_is_stored_whatever_its_version_calls_it() {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"idempotency_key":"0190f3c2-6f5d-7cc3-98c4-dc0c0c073991"}}}"#;
    for (content, runs) in [
        (r#"{"status":"active"}"#, 1),
        (r#"{"status":"pending_creatives"}"#, 1),
        (r#"{"status":"submitted","errors":[{"code":"X"}]}"#, 1),
        (r#"{"status":"working"}"#, 2),
        (r#"{"status":"failed","errors":[{"code":"X"}]}"#, 2),
        (r#"{"status":"active","adcp_error":{}}"#, 2),
        (r#"{"errors":[{"code":"X"}]}"#, 2),
    ] {
        let app = App::new(
            layer(presets::adcp(["pay"], [""; 0])),
            move |_| async move {
                format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"structuredContent":{content}}}}}"#)
            },
        );
        for _ in 0..2 {
            app.send(bare("/", body)).await;
        }
        assert_eq!(app.runs(), runs, "{content}");
    }
}

/// Stripe's SDKs do what the header says, whatever the status.
#[tokio::test]
async fn stripes_handler_says_what_to_retry_and_a_replayed_error_is_not() {
    const SHOULD_RETRY: &str = "stripe-should-retry";
    for (status, word, runs) in [(503, "true", 2), (402, "true", 2), (500, "", 1)] {
        let app = App::new(layer(presets::stripe()), move |_| async move {
            (
                StatusCode::from_u16(status).unwrap(),
                [(SHOULD_RETRY, word)],
            )
        });
        app.send(post("k", "{}")).await;
        let retry = app.send(post("k", "{}")).await;
        assert_eq!(app.runs(), runs, "{status} {word}");
        let expected = if runs == 1 { "false" } else { word };
        assert_eq!(retry.header(SHOULD_RETRY), Some(expected));
    }
}
