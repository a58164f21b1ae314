//! Calls in JSON-RPC envelopes.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use idem_http::{HttpPolicy, JsonRpc, KeySource, OnDisconnect, presets};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{Answer, App, layer, until};

fn policy() -> HttpPolicy {
    presets::mcp(["pay"])
}

/// A call of a tool with a key.
fn call(tool: &str, id: u32, key: &str) -> Request {
    let params = json!({"name": tool, "idempotencyKey": key, "arguments": {"amount": 1}});
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    send(body.to_string())
}

fn send(body: impl Into<Body>) -> Request {
    Request::post("/rpc")
        .header("x-account", "a")
        .header(CONTENT_TYPE, "application/json")
        .body(body.into())
        .unwrap()
}

fn json_of(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

/// Answers each call with these events, where `ID` is the call's id.
fn events(policy: HttpPolicy, events: &'static str) -> App {
    App::new(layer(policy), move |request: Request| async move {
        let body = axum::body::to_bytes(request.into_body(), usize::MAX).await;
        let body: Value = serde_json::from_slice(&body.unwrap()).unwrap();
        let text = events.replace("ID", &body["id"].to_string());
        ([(CONTENT_TYPE, "text/event-stream")], text).into_response()
    })
}

const PROGRESS_AND_ANSWER: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n\
     data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"paid\":1.0}}\n\n";

#[tokio::test]
async fn an_answer_as_events_is_replayed_as_json_with_the_new_id() {
    let app = events(policy(), PROGRESS_AND_ANSWER);
    let first = app.send(call("pay", 7, "k")).await;
    assert_eq!(first.header("content-type"), Some("text/event-stream"));
    assert_eq!(first.text(), PROGRESS_AND_ANSWER.replace("ID", "7"));
    let replay = app.send(call("pay", 8, "k")).await;
    assert_eq!(replay.header("content-type"), Some("application/json"));
    assert_eq!(
        replay.text(),
        r#"{"jsonrpc":"2.0","id":8,"result":{"paid":1.0}}"#
    );
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn events_of_other_calls_pass_as_they_come() {
    let app = events(policy(), PROGRESS_AND_ANSWER);
    for run in 1..=2 {
        app.send(call("list", 7, "k")).await;
        assert_eq!(app.runs(), run, "a tool that is not listed");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_the_last_is_not_stored() {
    for (member, answer, runs) in [
        ("result", json!({"resultType": "input_required"}), 2),
        ("result", json!({"resultType": "complete"}), 1),
        ("result", json!({"resultType": "task", "task": {}}), 1),
        ("error", json!({"code": -32603, "message": "crashed"}), 2),
        ("error", json!({"code": -32800, "message": "cancelled"}), 2),
        ("error", json!({"code": -32602, "message": "refused"}), 1),
    ] {
        let said = answer.clone();
        let app = App::new(layer(policy()), move |_| {
            let answer = json!({"jsonrpc": "2.0", "id": 7, member: said});
            async move { axum::Json(answer) }
        });
        for _ in 0..2 {
            app.send(call("pay", 7, "k")).await;
        }
        assert_eq!(app.runs(), runs, "{answer}");
    }
}

#[tokio::test]
async fn what_is_not_a_listed_call_reaches_the_handler_as_it_was_sent() {
    let app = App::new(layer(policy()), |request: Request| async move {
        axum::body::to_bytes(request.into_body(), usize::MAX)
            .await
            .unwrap()
    });
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"list"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","x":1e999}"#,
        "",
    ] {
        let answer = app.send(send(body)).await;
        assert_eq!(answer.text(), body);
    }
}

#[tokio::test]
async fn an_unlisted_call_needs_no_account_and_a_listed_one_does() {
    let app = App::counting(layer(policy()));
    let anonymous = |mut request: Request| {
        request.headers_mut().remove("x-account");
        request
    };
    let passed = app.send(anonymous(call("list", 7, "k"))).await;
    assert_eq!(passed.text(), "run 1");
    let refused = json_of(&app.send(anonymous(call("pay", 7, "k"))).await);
    assert_eq!(refused["error"]["code"], -32603);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn ids_are_numbers_or_texts_and_come_back_as_they_are() {
    let app = App::new(layer(policy()), |_| async {
        axum::Json(json!({"jsonrpc": "2.0", "id": 7, "result": 1}))
    });
    app.send(call("pay", 7, "k")).await;
    for id in [json!("seven"), json!(8), json!(-1)] {
        let params = json!({"name": "pay", "idempotencyKey": "k", "arguments": {"amount": 1}});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let replay = json_of(&app.send(send(body.to_string())).await);
        assert_eq!(replay["id"], id);
    }
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_the_handler_where_the_policy_says_so() {
    for (choice, runs) in [(OnDisconnect::Cancel, 2), (OnDisconnect::Finish, 1)] {
        let gate = Arc::new(Semaphore::new(0));
        let waits = Arc::clone(&gate);
        let rules = policy().with_on_disconnect(choice);
        let app = App::new(layer(rules), move |_| {
            let gate = Arc::clone(&waits);
            async move {
                gate.acquire().await.unwrap().forget();
                axum::Json(json!({"jsonrpc": "2.0", "id": 7, "result": "paid"}))
            }
        });
        let mut sending = Box::pin(app.send(call("pay", 7, "k")));
        tokio::select! {
            _ = &mut sending => panic!("the handler waits"),
            () = app.until_runs(1) => {}
        }
        drop(sending);
        gate.add_permits(2);
        until(async || {
            let answer = json_of(&app.send(call("pay", 8, "k")).await);
            answer["result"] == "paid"
        })
        .await;
        assert_eq!(app.runs(), runs, "{choice:?}");
    }
}

#[tokio::test]
async fn keys_of_a_member_belong_to_the_call_when_the_policy_says_so() {
    let rules = JsonRpc::new().with_optional(["pay", "refund"]);
    let policy = policy().with_json_rpc(rules).with_operation_by_call();
    let app = App::new(layer(policy), |_| async {
        axum::Json(json!({"jsonrpc": "2.0", "id": 7, "result": 1}))
    });
    for (tool, runs) in [("pay", 1), ("refund", 2), ("pay", 2)] {
        let answer = json_of(&app.send(call(tool, 7, "k")).await);
        assert_eq!(answer["result"], 1);
        assert_eq!(app.runs(), runs, "{tool}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_known_whether_it_has_a_key() {
    let policy = HttpPolicy::ietf()
        .with_key_source(KeySource::member("/key"))
        .with_max_request_bytes(8);
    let app = App::counting(layer(policy));
    let refused = app.send(send("{\"a\": \"long\"}")).await;
    assert_eq!(refused.status, http::StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(app.send(send("{}")).await.text(), "run 1");
}
