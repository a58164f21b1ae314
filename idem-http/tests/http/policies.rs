//! What a policy can say about keys and answers.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use idem_core::json::RawJson;
use idem_core::{Idempotency, IdempotencyStore, Key, MemoryStore, Policy, Record};
use idem_http::{
    FingerprintRecipe, HttpPolicy, KeyFormat, KeySource, Markers, ProblemType, Refusal,
    Requirement, presets,
};
use serde_json::{Value, json as value};

use crate::support::{App, layer, layer_on, post, repeatable, request, with, without};

#[tokio::test]
async fn a_missing_key_is_told_where_it_belongs() {
    let app = App::counting(layer(
        HttpPolicy::ietf()
            .with_key_source(KeySource::member("/key"))
            .with_requirement(Requirement::Required),
    ));
    let problem = app
        .send(post("a", "{}"))
        .await
        .problem(ProblemType::KeyMissing);
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("`/key` of the body")
    );
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn header_and_body_have_to_agree_where_the_header_counts() {
    let source = KeySource::member_and_header(
        "/key",
        HeaderName::from_static("idempotency-key"),
        |parts| parts.headers.contains_key("signature"),
    );
    let app = App::counting(layer(HttpPolicy::ietf().with_key_source(source)));
    let signed = |request| with(request, "signature", "yes");
    let body = r#"{"key":"k"}"#;
    assert_eq!(
        app.send(post("other", body)).await.text(),
        "run 1",
        "unsigned"
    );
    assert!(app.send(signed(post("k", body))).await.is_replayed());
    assert!(app.send(signed(post("\"k\"", body))).await.is_replayed());
    for different in [
        signed(post("other", body)),
        signed(without(post("k", body), "idempotency-key")),
        signed(post("k", "{}")),
    ] {
        app.send(different).await.problem(ProblemType::KeyMalformed);
    }
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_format_refuses_other_keys_before_anything_is_stored() {
    let format = KeyFormat::characters("-").with_length(4..=8);
    let policy = HttpPolicy::ietf().with_key_format(format);
    let app = App::counting(layer(policy));
    for wrong in ["abc", "abcdefghi", "ab_cd"] {
        let answer = app.send(post(wrong, "{}")).await;
        let problem = answer.problem(ProblemType::KeyMalformed);
        assert!(!problem.to_string().contains(wrong), "it quotes the key");
    }
    assert_eq!(app.send(post("ab-cd", "{}")).await.text(), "run 1");
}

#[tokio::test]
async fn the_same_key_in_another_space_is_another_key() {
    let policy = HttpPolicy::ietf()
        .with_key_space(|request| {
            let account = request.member("/account").map(RawJson::canonical);
            vec![
                request.parts().uri.path().to_owned(),
                account.unwrap_or_default(),
            ]
        })
        .with_fingerprint(FingerprintRecipe::body());
    let app = App::counting(layer(policy));
    let long = "k".repeat(255);
    for (path, body, runs) in [
        ("/a", r#"{"account":1}"#, 1),
        ("/b", r#"{"account":1}"#, 2),
        ("/a", r#"{"account":2}"#, 3),
        ("/a", r#"{"account":1}"#, 3),
    ] {
        app.send(request("POST", path, &long, body)).await;
        assert_eq!(app.runs(), runs, "{path} {body}");
    }
    let other = app
        .send(request("POST", "/a", &long, r#"{"account":1,"x":1}"#))
        .await;
    other.problem(ProblemType::KeyReused);
}

#[tokio::test]
async fn refusals_are_worded_by_the_policy_with_all_there_is_to_say() {
    let words = |refusal: &Refusal<'_>| {
        let request = refusal.request().unwrap();
        refusal.json(&value!({
            "kind": format!("{:?}", refusal.kind()),
            "key": request.key(),
            "path": request.parts().uri.path(),
            "amount": request.member("/amount").map(RawJson::canonical),
            "after": refusal.retry_after(),
        }))
    };
    let policy = HttpPolicy::ietf()
        .with_status(ProblemType::KeyReused, StatusCode::CONFLICT)
        .with_status(ProblemType::KeyReused, StatusCode::IM_A_TEAPOT)
        .with_refusals(words);
    let app = App::counting(layer(policy));
    app.send(post("\"k\"", r#"{"amount":1}"#)).await;
    let refused = app.send(post("\"k\"", r#"{"amount":2}"#)).await;
    assert_eq!(
        refused.status,
        StatusCode::IM_A_TEAPOT,
        "the last one counts"
    );
    let said: Value = serde_json::from_slice(&refused.body).unwrap();
    let expected = value!({
        "kind": "KeyReused", "key": "\"k\"", "path": "/orders", "amount": "2", "after": null,
    });
    assert_eq!(said, expected);
}

#[tokio::test]
async fn markers_are_as_the_policy_says() {
    let name = HeaderName::from_static;
    let markers = Markers::none()
        .with_replayed(name("x-again"), HeaderValue::from_static("yes"))
        .with_key(name("x-key"))
        .with_result(
            name("x-result"),
            HeaderValue::from_static("accepted"),
            HeaderValue::from_static("rejected"),
        );
    let app = App::counting(layer(HttpPolicy::ietf().with_markers(markers)));
    for (body, again, result) in [
        ("{}", None, "accepted"),
        ("{}", Some("yes"), "accepted"),
        ("[]", None, "rejected"),
    ] {
        let answer = app.send(post("\"k\"", body)).await;
        assert_eq!(answer.header("x-again"), again);
        assert_eq!(answer.header("x-result"), Some(result));
        assert_eq!(answer.header("x-key"), Some("\"k\""), "as it was sent");
        assert_eq!(answer.header("idempotent-replayed"), None);
    }
}

#[tokio::test]
async fn a_policy_that_promises_more_than_it_keeps_is_refused_at_the_start() {
    let day = Duration::from_secs(86_400);
    let promising = HttpPolicy::ietf().with_min_lifetime(day);
    let short = Policy::default().with_retention(Duration::from_secs(3600));
    let short = Idempotency::new(MemoryStore::new()).with_policy(short);
    let layer = layer_on(short.clone()).with_policy(promising.clone());
    assert_eq!(layer.lifetime().unwrap().iso8601(), "PT1H");
    let error = layer.verify().unwrap_err();
    assert_eq!(error.kind(), idem_core::ErrorKind::Misconfigured);
    assert!(error.to_string().contains("86400 s"), "{error}");
    let longer = promising.with_retention(day);
    let layer = layer_on(short).with_policy(longer.with_tombstone(day));
    layer.verify().unwrap();
    assert_eq!(
        layer.lifetime().unwrap().as_secs(),
        86_400,
        "tombstones are no replays"
    );
    let limit = Duration::from_millis(29_001);
    let lifetime = layer.lifetime().unwrap().with_in_flight_max(limit);
    assert_eq!(
        lifetime.adcp().to_string(),
        r#"{"in_flight_max_seconds":30,"replay_ttl_seconds":86400,"supported":true}"#
    );
}

#[tokio::test]
async fn a_route_that_does_not_support_keys_says_so() {
    let app = App::counting(layer(
        HttpPolicy::ietf().with_requirement(Requirement::Unsupported),
    ));
    let refused = app.send(post("k", "{}")).await;
    assert_eq!(refused.status, StatusCode::NOT_IMPLEMENTED);
    refused.problem(ProblemType::KeyUnsupported);
    let passed = app.send(without(post("k", "{}"), "idempotency-key")).await;
    assert_eq!(passed.text(), "run 1");
}

#[tokio::test]
async fn stripes_preset_guards_post_only() {
    let app = App::counting(layer(presets::stripe()));
    for _ in 0..2 {
        app.send(request("DELETE", "/orders", "a", "")).await;
    }
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn clients_of_azure_are_told_apart_by_every_byte_except_case() {
    let app = App::counting(layer(presets::azure()));
    let send = |id: &'static str, client: Option<&'static [u8]>| {
        let mut request = repeatable(post("a", "{}"), id);
        if let Some(client) = client {
            let client = HeaderValue::from_bytes(client).unwrap();
            request
                .headers_mut()
                .insert("repeatability-client-id", client);
        }
        app.send(request)
    };
    let clients: [Option<&[u8]>; 6] = [
        None,
        Some(b"a"),
        Some("\u{e9}".as_bytes()),
        Some("\u{fc}".as_bytes()),
        Some(b"\xe9"),
        Some(b"\xfc"),
    ];
    for (position, client) in clients.into_iter().enumerate() {
        for id in ["8e03978e-a", "8E03978E-A"] {
            let answer = send(id, client).await;
            assert_eq!(answer.text(), format!("run {}", position + 1));
        }
    }
    assert_eq!(send("8e03978e-a", Some(b"A")).await.text(), "run 2");
}

/// Returns how long a record of the policy is kept, while the engine's own policy says an hour.
async fn retention(policy: HttpPolicy) -> Duration {
    let store = Arc::new(MemoryStore::new());
    let engine = Policy::default().with_retention(Duration::from_secs(3600));
    let idempotency = Idempotency::new(Arc::clone(&store)).with_policy(engine);
    let app = App::counting(layer_on(idempotency).with_policy(policy));
    app.send(post("a", "{}")).await;
    let key = Key::new("a", HttpPolicy::DEFAULT_OPERATION, "a").unwrap();
    match store.get(&key).await.unwrap() {
        Some(Record::Completed(completed)) => completed
            .info
            .expires_at
            .saturating_since(completed.sealed_at),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_route_keeps_answers_as_its_policy_says_or_else_the_engine_and_adds_tombstones() {
    assert_eq!(retention(presets::stripe()).await.as_secs(), 24 * 3600);
    assert_eq!(retention(HttpPolicy::ietf()).await.as_secs(), 3600);
    let minute = Duration::from_secs(60);
    let with_tombstone = HttpPolicy::ietf().with_tombstone(minute);
    assert_eq!(retention(with_tombstone).await.as_secs(), 3660);
    let both = presets::stripe().with_tombstone(minute);
    assert_eq!(retention(both).await.as_secs(), 24 * 3600 + 60);
}
