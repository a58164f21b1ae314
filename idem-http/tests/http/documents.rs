//! Documents that a typed handler reads and a generic parser refuses: the layer sees the same key,
//! call and answer as the handler.

use axum::body::Body;
use axum::extract::Request;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use idem_http::{FingerprintRecipe, HttpPolicy, KeySource, Requirement, presets};

use crate::support::{App, layer, with};

const UUID: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

/// Values that a handler skips unread, or reads in its own way.
fn skipped() -> Vec<(&'static str, Vec<u8>)> {
    let deep = ["[".repeat(200), "]".repeat(200)].concat();
    vec![
        ("a plain value", b"1".to_vec()),
        ("a lone surrogate", br#""\ud83d""#.to_vec()),
        ("a number beyond a double", b"1e999".to_vec()),
        ("200 levels", deep.into_bytes()),
        ("no UTF-8", b"\"\xff\"".to_vec()),
    ]
}

/// Replaces the text `SKIPPED`.
fn filled(template: &str, skipped: &[u8]) -> Vec<u8> {
    let (before, after) = template.split_once("SKIPPED").unwrap();
    [before.as_bytes(), skipped, after.as_bytes()].concat()
}

fn send(body: impl Into<Body>) -> Request {
    Request::post("/orders")
        .header("x-account", "a")
        .header(CONTENT_TYPE, "application/json")
        .body(body.into())
        .unwrap()
}

fn tool(name: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}",{arguments}}}}}"#
    )
}

/// The presets whose key is in the body, each with a request for `KEY`.
fn presets() -> Vec<(&'static str, HttpPolicy, String)> {
    let message = r#""params":{"message":{KEY"x":SKIPPED}}"#;
    vec![
        (
            "aws",
            presets::aws("/ClientToken"),
            r#"{KEY"Note":SKIPPED}"#.into(),
        ),
        ("aip155", presets::aip155(), r#"{KEY"note":SKIPPED}"#.into()),
        ("square", presets::square(), r#"{KEY"note":SKIPPED}"#.into()),
        (
            "ucp_mcp",
            presets::ucp_mcp(),
            tool(
                "complete_checkout",
                r#""arguments":{"meta":{KEY"m":1},"x":SKIPPED}"#,
            ),
        ),
        (
            "adcp",
            presets::adcp(["buy"], ["look"]),
            tool("buy", r#""arguments":{KEY"x":SKIPPED}"#),
        ),
        (
            "acp_mcp",
            presets::acp_mcp(),
            tool(
                "complete_checkout_session",
                r#""arguments":{"meta":{KEY"m":1},"payload":SKIPPED}"#,
            ),
        ),
        (
            "a2a",
            presets::a2a(),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"message/send",{message}}}"#),
        ),
        (
            "mcp",
            presets::mcp(["pay"]),
            tool("pay", r#"KEY"arguments":{"x":SKIPPED}"#),
        ),
    ]
}

/// Returns the name of the member that carries the key.
fn member(preset: &str) -> &'static str {
    match preset {
        "aws" => "ClientToken",
        "aip155" => "request_id",
        "ucp_mcp" => "idempotency-key",
        "a2a" => "messageId",
        "mcp" => "idempotencyKey",
        _ => "idempotency_key",
    }
}

/// Answers each call as a success of every protocol.
fn app(policy: HttpPolicy) -> App {
    App::new(layer(policy), |_| async {
        axum::Json(serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": {}}))
    })
}

#[tokio::test]
async fn a_key_counts_whatever_stands_beside_it() {
    for (name, policy, template) in presets() {
        let key = format!(r#""{}":"{UUID}","#, member(name));
        let template = template.replace("KEY", &key);
        for (what, value) in skipped() {
            let app = app(policy.clone());
            for attempt in 1..=2 {
                let answer = app.send(send(filled(&template, &value))).await;
                assert!(
                    answer.status.is_success(),
                    "{name}, {what}: {}",
                    answer.text()
                );
                assert_eq!(app.runs(), 1, "{name}, {what}, attempt {attempt}");
            }
            let other = template.replacen('}', r#","other":1}"#, 1);
            app.send(send(filled(&other, &value))).await;
            assert_eq!(
                app.runs(),
                1,
                "{name}, {what}: another request with the key"
            );
        }
    }
}

#[tokio::test]
async fn a_call_that_needs_a_key_and_has_none_never_runs() {
    for (name, policy, template) in presets() {
        if matches!(name, "aws" | "aip155" | "mcp") {
            continue;
        }
        for (what, value) in skipped() {
            let app = app(policy.clone());
            app.send(send(filled(&template.replace("KEY", ""), &value)))
                .await;
            assert_eq!(app.runs(), 0, "{name}, {what}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_no_text_is_malformed() {
    let app = app(presets::aws("/ClientToken"));
    for key in [
        &br#""\ud83d""#[..],
        b"\"\xff\"",
        b"7",
        b"{}",
        b"[]",
        b"true",
    ] {
        let body = filled(r#"{"ClientToken":SKIPPED}"#, key);
        assert_eq!(app.send(send(body)).await.status, StatusCode::BAD_REQUEST);
    }
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn a_key_or_a_call_with_two_readings_is_refused() {
    let aws = presets::aws("/ClientToken");
    let nested = HttpPolicy::ietf().with_key_source(KeySource::member("/meta/key"));
    let pay = presets::mcp(["pay"]);
    let call = |text: &str| tool("pay", text);
    // `serde_json::Value` takes the string for the document.
    let hidden = |name: &str, document: &str| {
        let text = serde_json::Value::from(document);
        format!(r#"{{"{name}":{text}}}"#)
    };
    let raw = "$serde_json::private::RawValue";
    let escaped = "\\u0024serde_json::private::RawValue";
    for (policy, body) in [
        (&aws, r#"{"ClientToken":"a","ClientToken":"b"}"#.into()),
        (&aws, r#"{"ClientToken":"a","Client\u0054oken":"a"}"#.into()),
        (
            &aws,
            r#"{"ClientToken":null,"\u0043lientToken":"a"}"#.into(),
        ),
        // A struct may be read from an array, by position.
        (&aws, r#"["a",5]"#.into()),
        (&pay, r#"["2.0",7,"tools/call",{"name":"pay"}]"#.into()),
        (&pay, r#"[["2.0",7,"tools/call",{"name":"pay"}]]"#.into()),
        (&aws, hidden(raw, r#"{"ClientToken":"a"}"#)),
        (&aws, hidden(escaped, r#"{"ClientToken":"a"}"#)),
        (&pay, hidden(raw, &call(r#""idempotencyKey":"a""#))),
        (&pay, format!("[{}]", hidden(raw, &call(r#""x":1"#)))),
        (
            &nested,
            format!(r#"{{"meta":{}}}"#, hidden(raw, r#"{"key":"a"}"#)),
        ),
        // Readers of enums find a name in an object or a number, too.
        (
            &pay,
            call(r#""x":1"#).replace(r#""pay""#, r#"{"pay":null}"#),
        ),
        (&pay, call(r#""x":1"#).replace(r#""pay""#, "0")),
        (
            &pay,
            call(r#""x":1"#).replace(r#""tools/call""#, r#"{"tools/call":null}"#),
        ),
        // Some readers run a call that breaks the rules of JSON-RPC.
        (&pay, call(r#""x":1"#).replace("2.0", "1.0")),
        (&pay, call(r#""x":1"#).replace(r#""jsonrpc":"2.0","#, "")),
        (&pay, call(r#""x":1"#).replace(r#""id":1,"#, "")),
        (&pay, call(r#""x":1"#).replace(r#""id":1"#, r#""id":null"#)),
        (&nested, r#"{"meta":{"key":"a"},"meta":{}}"#.into()),
        (&nested, r#"{"meta":["a"]}"#.into()),
        (&pay, call(r#""idempotencyKey":"a","n\u0061me":"list""#)),
        (&pay, call(r#""x":1},"params":{"name":"list""#)),
        (&pay, call(r#""x":1},"method":"tools/list","y":{"z":1"#)),
        (&pay, call(r#""x":1},"id":1,"y":{"z":1"#)),
    ] {
        let app = app(policy.clone());
        let answer = app.send(send(body.clone())).await;
        assert!(
            answer.text().contains("invalid") || answer.status == 400,
            "{body}"
        );
        assert_eq!(app.runs(), 0, "{body}");
    }
}

#[tokio::test]
async fn a_key_at_another_target_gets_no_replay() {
    let order = || r#"{KEY"x":SKIPPED}"#.to_owned();
    let by_header = [
        ("ucp", presets::ucp(), order()),
        ("acp", presets::acp(), order()),
        ("paypal", presets::paypal(), order()),
        ("ietf", HttpPolicy::ietf(), order()),
    ];
    for (name, policy, template) in presets().into_iter().chain(by_header) {
        let key = format!(r#""{}":"{UUID}","#, member(name));
        let body = filled(&template.replace("KEY", &key), b"1");
        let app = app(policy);
        let mut targets = Vec::new();
        for target in ["/orders/a", "/orders/b", "/orders/a?tenant=b"] {
            let mut request = send(body.clone());
            *request.uri_mut() = target.parse().unwrap();
            let request = with(request, "idempotency-key", &format!("\"{UUID}\""));
            let request = with(request, "paypal-request-id", UUID);
            let (before, answer) = (app.runs(), app.send(request).await);
            let is_refused = answer.status.is_client_error() || answer.text().contains("error");
            targets.push(app.runs() > before || is_refused);
        }
        assert_eq!(targets, [true; 3], "{name}");
    }
}

#[tokio::test]
async fn another_merchant_gets_no_replay() {
    let app = app(presets::paypal());
    for (merchant, status) in [("e30.M1.", 200), ("e30.M1.", 200), ("e30.M2.", 422)] {
        let order = with(send("{}"), "paypal-request-id", "order");
        let order = with(order, "paypal-auth-assertion", merchant);
        assert_eq!(app.send(order).await.status, status, "{merchant}");
    }
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn tenants_with_two_readings_share_no_key() {
    let app = app(presets::a2a());
    for tenant in ["B", "C"] {
        let params =
            format!(r#"{{"tenant":"A","tenant":"{tenant}","message":{{"messageId":"m"}}}}"#);
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":"#;
        app.send(send(format!("{call}{params}}}"))).await;
    }
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_never_runs_where_it_may_hold_a_key() {
    let key = || HttpPolicy::ietf().with_key_source(KeySource::member("/key"));
    let required = key().with_requirement(Requirement::Required);
    let as_type = |body: &'static str, kind: &str| with(send(body), "content-type", kind);
    let lenient = r#"{"key":"k",}"#;
    let zipped = with(
        as_type("\x1f", "application/octet-stream"),
        CONTENT_ENCODING.as_str(),
        "gzip",
    );
    for (policy, request, runs) in [
        (key(), send(lenient), 0),
        (key(), send("nothing"), 0),
        (key(), as_type(lenient, "text/plain"), 0),
        (key(), as_type("\u{feff} {\"key\":\"k\"}", "text/plain"), 0),
        (
            key(),
            as_type("/**/ {\"key\":\"k\"}", "application/vnd.x+json"),
            0,
        ),
        (key(), as_type("[{\"key\":\"k\"},]", ""), 0),
        (key(), zipped, 0),
        (
            key(),
            as_type("key=k", "application/x-www-form-urlencoded"),
            1,
        ),
        (key(), send(" \n"), 1),
        (
            required.clone(),
            as_type("key=k", "application/x-www-form-urlencoded"),
            0,
        ),
        (required, send(""), 0),
        (presets::mcp(["pay"]), send("nothing"), 0),
        (presets::mcp(["pay"]), as_type("nothing", "text/plain"), 0),
        (presets::mcp(["pay"]), send(""), 1),
    ] {
        let shown = format!("{request:?}");
        let app = app(policy);
        app.send(request).await;
        assert_eq!(app.runs(), runs, "{shown}");
    }
}

#[tokio::test]
async fn another_request_is_a_conflict_also_where_json_has_no_canonical_form() {
    let policy = HttpPolicy::ietf()
        .with_key_source(KeySource::member("/key"))
        .with_fingerprint(
            FingerprintRecipe::body()
                .without_member("/key")
                .without_member("/at"),
        );
    for (what, value) in skipped() {
        let app = app(policy.clone());
        let of = |text: &str| send(filled(text, &value));
        app.send(of(r#"{"key":"k","at":1,"x":SKIPPED}"#)).await;
        let same = app.send(of(r#"{"at":2,"x":SKIPPED,"key":"k"}"#)).await;
        assert_eq!(
            same.status,
            StatusCode::OK,
            "{what}: what is left out differs"
        );
        let other = app.send(of(r#"{"key":"k","at":1,"x":[SKIPPED]}"#)).await;
        assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY, "{what}");
        assert_eq!(app.runs(), 1, "{what}");
    }
}

#[tokio::test]
async fn an_answer_is_stored_whatever_stands_in_it() {
    let stream = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":SKIPPED}}\n\n";
    let whole = r#"{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"x":SKIPPED}}}"#;
    let adcp = || presets::adcp(["pay"], [""; 0]);
    for (policy, kind, template) in [
        (adcp(), "application/json", whole),
        (adcp(), "text/event-stream", stream),
        (presets::mcp(["pay"]), "text/event-stream", stream),
    ] {
        for (what, value) in skipped() {
            let body = filled(template, &value);
            let app = App::new(layer(policy.clone()), move |_| {
                let body = body.clone();
                async move { ([(CONTENT_TYPE, kind)], body) }
            });
            let key =
                format!(r#""idempotencyKey":"{UUID}","arguments":{{"idempotency_key":"{UUID}"}}"#);
            for attempt in 1..=2 {
                let answer = app.send(send(tool("pay", &key))).await;
                assert_eq!(answer.status, StatusCode::OK, "{kind}, {what}");
                assert_eq!(app.runs(), 1, "{kind}, {what}, attempt {attempt}");
            }
        }
    }
}
