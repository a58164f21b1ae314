//! Requests whose key counts.

use http::{HeaderName, Method, StatusCode};
use idem_http::{FingerprintRecipe, HttpPolicy, KeyForm, ProblemType, Requirement};

use crate::support::{App, layer, post, request, with, without};

#[tokio::test]
async fn requests_without_a_key_are_handled_each_time_where_it_is_optional() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    for _ in 0..2 {
        let answer = app
            .send(without(post("\"a\"", "{}"), "idempotency-key"))
            .await;
        assert!(!answer.is_replayed());
    }
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn keys_are_ignored_where_they_are_off() {
    let app = App::counting(layer(HttpPolicy::ietf().with_requirement(Requirement::Off)));
    for key in ["\"a\"", "\"a\"", "\"not\\a key"] {
        assert_eq!(app.send(post(key, "{}")).await.status, StatusCode::CREATED);
    }
    assert_eq!(app.runs(), 3);
}

#[tokio::test]
async fn every_mutating_method_is_guarded() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    for method in ["POST", "PUT", "PATCH", "DELETE", "PROPPATCH"] {
        let key = format!("\"{method}\"");
        app.send(request(method, "/orders", &key, "{}")).await;
        let retry = app.send(request(method, "/orders", &key, "{}")).await;
        assert!(retry.is_replayed(), "{method}");
    }
    assert_eq!(app.runs(), 5);
}

#[tokio::test]
async fn methods_can_be_chosen_but_safe_ones_cannot() {
    let policy = HttpPolicy::ietf()
        .with_requirement(Requirement::Required)
        .with_methods([Method::POST, Method::GET]);
    let app = App::counting(layer(policy));
    let keyless = |method| without(request(method, "/orders", "a", "{}"), "idempotency-key");
    for (method, status) in [
        ("POST", StatusCode::BAD_REQUEST),
        ("PUT", StatusCode::CREATED),
        ("GET", StatusCode::CREATED),
    ] {
        assert_eq!(app.send(keyless(method)).await.status, status, "{method}");
    }
}

#[tokio::test]
async fn the_header_can_have_another_name() {
    let header = HeaderName::from_static("paypal-request-id");
    let app = App::counting(layer(
        HttpPolicy::ietf().with_key_source(idem_http::KeySource::header(header)),
    ));
    let request = || {
        let request = without(post("\"a\"", "{}"), "idempotency-key");
        with(request, "paypal-request-id", "p-1")
    };
    app.send(request()).await;
    assert!(app.send(request()).await.is_replayed());
}

#[tokio::test]
async fn the_same_key_under_another_method_path_or_query_is_refused() {
    let app = App::counting(layer(HttpPolicy::ietf()));
    app.send(request("POST", "/orders?x=1", "\"a\"", "{}"))
        .await;
    for (method, path) in [
        ("PUT", "/orders?x=1"),
        ("POST", "/refunds?x=1"),
        ("POST", "/orders?x=2"),
        // A proxy may decode a path.
        ("POST", "/%6frders?x=1"),
        ("POST", "//orders?x=1"),
        ("POST", "/x/../orders?x=1"),
    ] {
        let answer = app.send(request(method, path, "\"a\"", "{}")).await;
        answer.problem(ProblemType::KeyReused);
    }
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_text_that_the_recipe_adds_to_the_fingerprint_counts() {
    let recipe = FingerprintRecipe::request().with_text(|parts| {
        let version = parts.headers.get("api-version");
        version
            .map(|version| format!("{version:?}"))
            .unwrap_or_default()
    });
    let policy = HttpPolicy::ietf().with_fingerprint(recipe);
    let app = App::counting(layer(policy));
    app.send(with(post("\"a\"", "{}"), "api-version", "1"))
        .await;
    let other = app
        .send(with(post("\"a\"", "{}"), "api-version", "2"))
        .await;
    other.problem(ProblemType::KeyReused);
    assert!(
        app.send(with(post("\"a\"", "{}"), "api-version", "1"))
            .await
            .is_replayed()
    );
}

#[tokio::test]
async fn headers_beside_the_type_do_not_count() {
    let app = App::counting(layer(HttpPolicy::ietf().with_key_form(KeyForm::Lenient)));
    app.send(with(post("\"a\"", "{}"), "user-agent", "one"))
        .await;
    let retry = with(post("\"a\"", "{}"), "user-agent", "two");
    assert!(
        app.send(with(retry, "traceparent", "00-1-2-3"))
            .await
            .is_replayed()
    );
}
