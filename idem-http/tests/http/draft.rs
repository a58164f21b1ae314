//! The rules of draft-ietf-httpapi-idempotency-key-header-07, section by section.
//!
//! | section | rule | test |
//! | --- | --- | --- |
//! | 1 | `POST`, `PATCH` and other methods that change something can be made fault-tolerant | `every_mutating_method_is_guarded` |
//! | 1 | methods that change nothing need no key | `safe_methods_are_handled_each_time` |
//! | 2.1 | the header is an Item whose value is a String | `the_key_is_a_structured_field_string` |
//! | 2.1 | beyond the draft: a value without quotes is the same key, unless strict | `the_bare_form_is_the_same_key_unless_strict` |
//! | 2.1 | but not a bare value of another type, nor blanks | `a_bare_value_of_another_type_is_refused_with_the_reason` |
//! | 2.1 | no parameters are defined: they are ignored (RFC 9651, 3.1.2) | `parameters_of_the_key_are_ignored` |
//! | 2.1 | not more than one key in a request | `more_than_one_key_is_refused` |
//! | 2.2 | a key is not reused with another payload | `a_key_with_another_payload_is_refused` |
//! | 2.2 | how keys are unique is the resource owner's: here within scope and operation | `the_record_lies_under_scope_operation_and_key` |
//! | 2.3 | keys may expire, as is documented | `a_key_is_fresh_again_after_its_retention` |
//! | 2.4 | the fingerprint is of the payload: of its value, if it is JSON | `a_json_payload_is_compared_by_its_value` |
//! | 2.4 | and of its bytes, if it is not | `a_payload_that_is_not_json_is_compared_by_its_bytes` |
//! | 2.4 | and of method, path and query | `the_same_key_under_another_method_path_or_query_is_refused` |
//! | 2.6 | a first request is processed normally | `a_first_request_is_processed_normally` |
//! | 2.6 | a duplicate gets the result of the completed request | `a_retry_gets_the_result_of_the_completed_request` |
//! | 2.6 | also if that was an error | `a_retry_gets_an_error_that_was_the_result` |
//! | 2.6, 2.7 | a concurrent duplicate gets `409` | `a_concurrent_retry_gets_a_conflict_and_when_to_come_back` |
//! | 2.7 | a missing key gets `400` where it is required | `a_missing_key_is_refused_where_one_is_required` |
//! | 2.7 | problems link to documentation, in the body and as `Link` | `problems_link_to_the_documentation` |
//! | 2.7 | another payload gets `422`; `400` and `409` are presets | `ietf_answers_as_its_page_says` |
//! | 5 | keys have a published format | `keys_may_be_held_to_a_published_format` |
//! | 5 | keys are validated before anything else is done | `a_key_is_validated_before_anything_is_looked_up` |
//! | 5 | the lookup key includes the caller, so that no answer leaks | `keys_are_looked_up_together_with_the_callers_identity` |
//!
//! <https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07>

use std::time::Duration;

use http::StatusCode;
use idem_core::{Idempotency, IdempotencyStoreExt, Key, MemoryStore, Policy};
use idem_http::{HttpPolicy, KeyForm, KeyFormat, ProblemType, Requirement};
use tokio::sync::Semaphore;

use crate::support::{App, layer, layer_on, post, request, until, with, without};

#[tokio::test]
async fn the_key_is_a_structured_field_string() {
    let app = App::counting(layer(HttpPolicy::ietf().with_key_form(KeyForm::Strict)));
    let first = app
        .send(post(r#""8e03978e-40d5-43e8-bc93-6894a57f9324""#, "{}"))
        .await;
    assert_eq!(first.status, StatusCode::CREATED);
    for wrong in [
        "8e03978e-40d5",
        "8e03978e",
        "?1",
        "12",
        ":YWJj:",
        "(\"a\")",
        "\"a",
    ] {
        let answer = app.send(post(wrong, "{}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
        answer.problem(ProblemType::KeyMalformed);
    }
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn the_bare_form_is_the_same_key_unless_strict() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let first = app.send(post("8e03978e-40d5", "{}")).await;
    let retry = app.send(post("\"8e03978e-40d5\"", "{}")).await;
    assert!(retry.is_replayed());
    assert_eq!(retry.body, first.body);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_bare_value_of_another_type_is_refused_with_the_reason() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    for (wrong, why) in [
        ("?1", "a boolean"),
        (":aGVsbG8=:", "a byte sequence"),
        ("@1659578233", "a date"),
        ("%\"a\"", "a display string"),
        ("(a)", "an inner list"),
        ("\"   \"", "nothing but blanks"),
    ] {
        let answer = app.send(post(wrong, "{}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
        assert!(answer.text().contains(why), "{}", answer.text());
        assert!(!answer.text().contains(wrong), "the key is quoted");
        answer.problem(ProblemType::KeyMalformed);
    }
    assert_eq!(app.runs(), 0);
    for bare in ["12", "1.5", "3f8b0b5c-9d0a-4b7e-8a53-0c6f3a2d1e4f", "a?1"] {
        app.send(post(bare, "{}")).await;
        let quoted = format!("\"{bare}\"");
        assert!(app.send(post(&quoted, "{}")).await.is_replayed(), "{bare}");
    }
}

#[tokio::test]
async fn parameters_of_the_key_are_ignored() {
    let app = App::counting(layer(HttpPolicy::ietf().with_key_form(KeyForm::Strict)));
    app.send(post("\"a\"", "{}")).await;
    assert!(app.send(post("\"a\";v=2", "{}")).await.is_replayed());
}

#[tokio::test]
async fn more_than_one_key_is_refused() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let mut twice = post("\"a\"", "{}");
    twice
        .headers_mut()
        .append("idempotency-key", "\"a\"".parse().unwrap());
    for wrong in [twice, post("\"a\", \"b\"", "{}"), post("a, b", "{}")] {
        let answer = app.send(wrong).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        answer.problem(ProblemType::KeyMalformed);
    }
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn a_key_with_another_payload_is_refused() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    app.send(post("\"a\"", r#"{"amount": 1}"#)).await;
    let answer = app.send(post("\"a\"", r#"{"amount": 2}"#)).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    answer.problem(ProblemType::KeyReused);
    assert!(!answer.is_replayed());
    assert_eq!(app.runs(), 1);
    assert!(
        app.send(post("\"a\"", r#"{"amount": 1}"#))
            .await
            .is_replayed(),
        "the first stands"
    );
}

#[tokio::test]
async fn a_key_is_fresh_again_after_its_retention() {
    let policy = HttpPolicy::ietf().with_retention(Duration::from_millis(300));
    let app = App::counting(layer(policy));
    app.send(post("\"a\"", "{}")).await;
    until(async || !app.send(post("\"a\"", "{}")).await.is_replayed()).await;
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn a_json_payload_is_compared_by_its_value() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    app.send(post("\"a\"", r#"{"a":1,"b":"é"}"#)).await;
    let retry = app
        .send(post("\"a\"", "{\"b\": \"\\u00e9\", \"a\": 1.0}"))
        .await;
    assert!(retry.is_replayed(), "{retry:?}");
}

#[tokio::test]
async fn a_payload_that_is_not_json_is_compared_by_its_bytes() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let text = |body| with(post("\"a\"", body), "content-type", "text/plain");
    app.send(text(r#"{"a":1}"#)).await;
    assert!(app.send(text(r#"{"a":1}"#)).await.is_replayed());
    let other = app.send(text(r#"{"a": 1}"#)).await;
    assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_first_request_is_processed_normally() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let answer = app.send(post("\"a\"", "{}")).await;
    assert_eq!(
        (answer.status, answer.text()),
        (StatusCode::CREATED, "run 1")
    );
    assert_eq!(answer.header("idempotent-replayed"), None);
    assert_eq!(answer.header("idempotency-first-answered"), None);
}

#[tokio::test]
async fn a_retry_gets_the_result_of_the_completed_request() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    let first = app.send(post("\"a\"", "{}")).await;
    let retry = app.send(post("\"a\"", "{}")).await;
    assert_eq!((retry.status, &retry.body), (first.status, &first.body));
    assert!(retry.is_replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_retry_gets_an_error_that_was_the_result() {
    let app = App::new(layer(HttpPolicy::ietf()), |_| async {
        (StatusCode::PAYMENT_REQUIRED, "no funds")
    });
    app.send(post("\"a\"", "{}")).await;
    let retry = app.send(post("\"a\"", "{}")).await;
    assert_eq!(
        (retry.status, retry.text()),
        (StatusCode::PAYMENT_REQUIRED, "no funds")
    );
    assert!(retry.is_replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_concurrent_retry_gets_a_conflict_and_when_to_come_back() {
    static GATE: Semaphore = Semaphore::const_new(0);
    let app = App::new(
        layer(HttpPolicy::ietf().with_wait(Duration::ZERO)),
        |_| async {
            let _ = GATE.acquire().await;
            "done"
        },
    );
    let first = tokio::spawn({
        let app = app.clone();
        async move { app.send(post("\"a\"", "{}")).await }
    });
    app.until_runs(1).await;
    let answer = app.send(post("\"a\"", "{}")).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    let problem = answer.problem(ProblemType::RequestInFlight);
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    assert_eq!(problem["retryAfter"], seconds);
    GATE.add_permits(1);
    assert_eq!(first.await.unwrap().text(), "done");
    assert!(app.send(post("\"a\"", "{}")).await.is_replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_missing_key_is_refused_where_one_is_required() {
    let policy = HttpPolicy::ietf().with_requirement(Requirement::Required);
    let app = App::counting(layer(policy));
    let answer = app
        .send(without(post("\"a\"", "{}"), "idempotency-key"))
        .await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    answer.problem(ProblemType::KeyMissing);
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn problems_link_to_the_documentation() {
    let uri = "https://developer.example.com/idempotency";
    let policy = HttpPolicy::ietf()
        .with_requirement(Requirement::Required)
        .with_documentation(uri.parse().unwrap());
    let app = App::counting(layer(policy));
    let answer = app
        .send(without(post("\"a\"", "{}"), "idempotency-key"))
        .await;
    let link = format!("<{uri}>; rel=\"describedby\"");
    assert_eq!(answer.header("link"), Some(link.as_str()));
    assert_eq!(answer.header("content-language"), Some("en"));
    assert_eq!(
        answer.problem(ProblemType::KeyMissing)["documentation"],
        uri
    );
}

#[tokio::test]
async fn keys_may_be_held_to_a_published_format() {
    let policy = HttpPolicy::ietf().with_key_format(KeyFormat::uuid());
    let app = App::counting(layer(policy));
    let answer = app.send(post("\"1\"", "{}")).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    answer.problem(ProblemType::KeyMalformed);
    app.send(post("\"8e03978e-40d5-43e8-bc93-6894a57f9324\"", "{}"))
        .await;
    let upper = app
        .send(post("\"8E03978E-40D5-43E8-BC93-6894A57F9324\"", "{}"))
        .await;
    assert!(upper.is_replayed());
}

#[tokio::test]
async fn a_key_is_validated_before_anything_is_looked_up() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    for wrong in ["\"\"", "", "a\tb", "a b", "\"a\\x\"", &"x".repeat(256)] {
        let answer = app.send(post(wrong, "{}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong:?}");
        answer.problem(ProblemType::KeyMalformed);
    }
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn keys_are_looked_up_together_with_the_callers_identity() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    app.send(post("\"a\"", "{}")).await;
    let other = app.send(with(post("\"a\"", "{}"), "x-account", "b")).await;
    assert_eq!(other.text(), "run 2");
    assert!(!other.is_replayed());
}

#[tokio::test]
async fn the_record_lies_under_scope_operation_and_key() {
    let store = std::sync::Arc::new(MemoryStore::new());
    let idempotency =
        Idempotency::new(std::sync::Arc::clone(&store)).with_policy(Policy::default());
    let policy = HttpPolicy::ietf().with_operation("orders.create");
    let app = App::counting(layer_on(idempotency).with_policy(policy));
    app.send(post("\"k 1\"", "{}")).await;
    let key = Key::new("a", "orders.create", "k 1").unwrap();
    let stored = store.response(&key).await.unwrap().unwrap();
    assert_eq!(stored.body().as_ref(), b"run 1");
}

#[tokio::test]
async fn safe_methods_are_handled_each_time() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"] {
        for _ in 0..2 {
            let answer = app.send(request(method, "/orders", "\"a\"", "")).await;
            assert!(!answer.is_replayed(), "{method}");
        }
    }
    assert_eq!(app.runs(), 10);
}
