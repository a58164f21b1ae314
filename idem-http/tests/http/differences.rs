//! Conflicts that show the difference.

use std::sync::Arc;

use http::StatusCode;
use idem_core::{ErrorKind, Idempotency, IdempotencyStore, Key, MemoryStore};
use idem_http::{HttpPolicy, KeptRequests, ProblemType};
use serde_json::{Value, json};

use crate::store::FailingStore;
use crate::support::{App, layer, layer_on, post, with};

const FIRST: &str = r#"{"amount": 1, "card": {"number": "4242", "cvc": "123"}, "note": "a"}"#;
const OTHER: &str = r#"{"amount": 2, "card": {"number": "5555", "cvc": "999"}}"#;

fn keeping() -> HttpPolicy {
    let kept = KeptRequests::new()
        .with_masked("/card/number")
        .with_masked("/card/cvc");
    HttpPolicy::ietf().with_kept_requests(kept)
}

async fn conflict(app: &App, first: &'static str, other: &'static str) -> Value {
    assert_eq!(app.send(post("a", first)).await.status, StatusCode::CREATED);
    let answer = app.send(post("a", other)).await;
    assert_eq!(app.runs(), 1);
    assert!(!answer.text().contains("4242") && !answer.text().contains("5555"));
    answer.problem(ProblemType::KeyReused)
}

#[tokio::test]
async fn a_conflict_carries_a_json_patch_without_secrets() {
    let problem = conflict(&App::counting(layer(keeping())), FIRST, OTHER).await;
    let patch: json_patch::Patch = serde_json::from_value(problem["differences"].clone()).unwrap();
    let masked = |text| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        value["card"] = json!({"number": "***", "cvc": "***"});
        value
    };
    let mut document = masked(FIRST);
    json_patch::patch(&mut document, &patch).unwrap();
    assert_eq!(document, masked(OTHER));
    assert_eq!(patch.0.len(), 2);
}

#[tokio::test]
async fn a_difference_in_secrets_alone_is_not_shown() {
    let other = r#"{"amount": 1, "card": {"number": "5555", "cvc": "123"}, "note": "a"}"#;
    let problem = conflict(&App::counting(layer(keeping())), FIRST, other).await;
    assert_eq!(problem["differences"], json!([]));
}

#[tokio::test]
async fn secrets_do_not_reach_the_store() {
    let store = Arc::new(MemoryStore::new());
    let layer = layer_on(Idempotency::new(Arc::clone(&store))).with_policy(keeping());
    let problem = conflict(&App::counting(layer), FIRST, OTHER).await;
    assert_ne!(problem["differences"], json!(null));
    let key = Key::new("a", "http", "a").unwrap();
    let first = store.get(&key).await.unwrap().unwrap().info().fingerprint;
    let side = key.derive(&format!("idem-http/request/{first}"));
    let record = store.get(&side).await.unwrap().unwrap();
    let kept = std::str::from_utf8(record.response().unwrap().body()).unwrap();
    assert!(
        kept.contains("\"amount\":1") && kept.contains("***"),
        "{kept}"
    );
    assert!(!kept.contains("4242") && !kept.contains("123"), "{kept}");
}

#[tokio::test]
async fn more_differences_than_a_patch_may_have_are_counted() {
    let name = "n".repeat(2_000);
    let documents = |number: usize, count: usize| {
        let values = vec![number.to_string(); count].join(",");
        format!(r#"{{"{name}":[{values}]}}"#)
    };
    for (count, is_patch) in [(1, true), (8, true), (9, false), (1_000, false)] {
        let app = App::counting(layer(keeping()));
        let send = |number| {
            let mut request = post("a", "");
            *request.body_mut() = documents(number, count).into();
            app.send(request)
        };
        send(1).await;
        let refused = send(2).await;
        let problem = refused.problem(ProblemType::KeyReused);
        assert_eq!(problem.get("differences").is_some(), is_patch, "{count}");
        let places = format!("in {count} places.");
        let detail = problem["detail"].as_str().unwrap();
        assert_eq!(detail.ends_with(&places), !is_patch, "{detail}");
        assert!(refused.body.len() < 20_000, "{}", refused.body.len());
    }
}

#[tokio::test]
async fn a_patch_leads_from_the_first_request_to_this_one() {
    let kept = HttpPolicy::ietf().with_kept_requests(KeptRequests::new());
    for (first, other) in [
        ("[1,2,3,4]", "[1,5]"),
        ("[1]", r#"[1,{"a/b":1},[2]]"#),
        (
            r#"{"a/b":1,"m~n":{"x":[]}}"#,
            r#"{"a/b":2,"m~n":{"x":{}},"":0}"#,
        ),
        ("1", "[]"),
    ] {
        let app = App::counting(layer(kept.clone()));
        let problem = conflict(&app, first, other).await;
        let patch = problem["differences"].clone();
        let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
        let mut document: Value = serde_json::from_str(first).unwrap();
        json_patch::patch(&mut document, &patch).unwrap();
        assert_eq!(document, serde_json::from_str::<Value>(other).unwrap());
    }
}

#[tokio::test]
async fn requests_are_not_kept_unless_configured() {
    let problem = conflict(&App::counting(layer(HttpPolicy::ietf())), FIRST, OTHER).await;
    assert_eq!(problem.get("differences"), None);
}

#[tokio::test]
async fn bodies_that_are_large_or_not_json_are_not_kept() {
    let kept = KeptRequests::new().with_max_bytes(10);
    let app = App::counting(layer(HttpPolicy::ietf().with_kept_requests(kept)));
    assert_eq!(
        conflict(&app, "[1234567890]", "[1]")
            .await
            .get("differences"),
        None
    );
    let app = App::counting(layer(keeping()));
    app.send(with(post("a", FIRST), "content-type", "text/plain"))
        .await;
    let answer = app.send(post("a", OTHER)).await;
    assert_eq!(
        answer.problem(ProblemType::KeyReused).get("differences"),
        None
    );
}

#[tokio::test]
async fn a_document_within_a_text_is_not_kept() {
    let first = r#"{"$serde_json::private::RawValue":"{\"amount\":1}"}"#;
    let other = r#"{"$serde_json::private::RawValue":"{\"amount\":2}"}"#;
    let problem = conflict(&App::counting(layer(keeping())), first, other).await;
    assert_eq!(problem.get("differences"), None);
}

#[tokio::test]
async fn a_store_that_keeps_no_requests_fails_none() {
    let store = FailingStore::new(ErrorKind::Unavailable).only_derived();
    let app = App::counting(layer_on(Idempotency::new(store)).with_policy(keeping()));
    let problem = conflict(&app, FIRST, OTHER).await;
    assert_eq!(problem.get("differences"), None);
    assert!(app.send(post("a", FIRST)).await.is_replayed());
}

#[tokio::test]
async fn a_request_that_was_released_is_not_compared_with() {
    let failing_once = std::sync::atomic::AtomicBool::new(true);
    let fails = Arc::new(failing_once);
    let app = App::new(layer(keeping()), move |_| {
        let fails = fails.swap(false, std::sync::atomic::Ordering::SeqCst);
        async move {
            if fails {
                StatusCode::BAD_GATEWAY
            } else {
                StatusCode::CREATED
            }
        }
    });
    app.send(post("a", r#"{"amount": 7}"#)).await;
    app.send(post("a", r#"{"amount": 1}"#)).await;
    let answer = app.send(post("a", r#"{"amount": 1, "b": 2}"#)).await;
    let differences = &answer.problem(ProblemType::KeyReused)["differences"];
    assert_eq!(
        *differences,
        json!([{"op": "add", "path": "/b", "value": 2}])
    );
}

#[tokio::test]
async fn a_mask_that_was_added_later_holds_for_earlier_records() {
    let store = Arc::new(MemoryStore::new());
    let app = |kept| {
        let policy = HttpPolicy::ietf().with_kept_requests(kept);
        App::counting(layer_on(Idempotency::new(Arc::clone(&store))).with_policy(policy))
    };
    app(KeptRequests::new()).send(post("a", FIRST)).await;
    let later = app(KeptRequests::new().with_masked("/card"));
    let other = r#"{"amount": 1, "card": {"number": "5555"}, "note": "a"}"#;
    let answer = later.send(post("a", other)).await;
    let problem = answer.problem(ProblemType::KeyReused);
    assert_eq!(problem["differences"], json!([]));
}

#[tokio::test]
async fn the_problem_in_the_documentation_is_the_one_sent() {
    let app = App::counting(layer(keeping()));
    app.send(post("a", "{\"amount\": 1}")).await;
    let answer = app.send(post("a", "{\"amount\": 2}")).await;
    let sent = format!("/// ```json\n/// {}\n/// ```", answer.text());
    assert!(include_str!("../../src/kept.rs").contains(&sent), "{sent}");
}
