//! Intents: which requests have one key, and which are refused.

use http::Method;
use idem_client::{Answer, ErrorKind, Intent, MissingIntent, Protocol};
use idem_core::{Effect, MemoryStore};

use crate::support::{
    Act, BODY, Server, all_same, client, delivery, error, ietf, is, memory, ok, post, request,
    settings,
};

#[tokio::test]
async fn an_intent_has_one_key_for_ever_and_another_intent_another() {
    let server = Server::start([]).await;
    let client = ietf();
    let mut keys = Vec::new();
    for intent in ["a", "a", "b"] {
        let response = post(&client, &server.url(), intent).send().await.unwrap();
        keys.push(delivery(&response).key);
    }
    assert_eq!(keys[0].as_str(), keys[1].as_str());
    assert_eq!(keys[0].first_sent(), keys[1].first_sent());
    assert!(keys[0].is_new() && !keys[1].is_new());
    assert_ne!(keys[0].as_str(), keys[2].as_str());
}

#[tokio::test]
async fn another_request_under_an_intent_is_refused_before_it_is_sent() {
    let server = Server::start([]).await;
    let client = ietf();
    let url = server.url();
    post(&client, &url, "a").send().await.unwrap();
    let same_value = r#"{ "amount": 1250.0, "order": 17 }"#;
    post(&client, &url, "a")
        .body(same_value)
        .send()
        .await
        .unwrap();
    for other in [
        post(&client, &url, "a").body(r#"{"order":17,"amount":9999}"#),
        post(&client, &format!("{url}/x"), "a"),
        post(&client, &format!("{url}?x=1"), "a"),
        post(&client, "http://other.example/charges", "a"),
        request(&client, Method::PUT, &url).with_extension(Intent::new("a").unwrap()),
    ] {
        let result = other.send().await;
        let error = error(&result);
        assert_eq!(error.kind(), ErrorKind::IntentChanged);
        assert_eq!(
            (error.effect(), error.is_retryable()),
            (Effect::None, false)
        );
    }
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_request_without_an_intent_keeps_its_key_for_its_own_tries() {
    let server = Server::start([Act::Drop, ok(), ok()]).await;
    let client = ietf();
    for _ in 0..2 {
        let sent = request(&client, Method::POST, &server.url()).send().await;
        assert_eq!(sent.unwrap().status(), 200);
    }
    let seen = server.seen();
    assert_eq!(all_same(&seen[..2]), 2);
    assert_ne!(seen[1].key(), seen[2].key());
}

#[tokio::test]
async fn a_request_without_an_intent_may_be_refused() {
    let server = Server::start([]).await;
    let refusing = settings(memory(), Protocol::ietf()).with_missing_intent(MissingIntent::Refuse);
    let client = client(refusing);
    let result = request(&client, Method::POST, &server.url()).send().await;
    assert_eq!(error(&result).kind(), ErrorKind::IntentMissing);
    assert!(server.seen().is_empty());
    post(&client, &server.url(), "a").send().await.unwrap();
}

#[tokio::test]
async fn a_request_with_a_key_of_its_own_is_refused() {
    let server = Server::start([]).await;
    let with_key = post(&ietf(), &server.url(), "a").header("idempotency-key", "\"mine\"");
    let result = with_key.send().await;
    assert_eq!(error(&result).kind(), ErrorKind::InvalidRequest);
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_safe_request_is_passed_on_without_a_key_or_a_retry() {
    let server = Server::start([Act::Drop, ok()]).await;
    let client = ietf();
    assert!(client.get(server.url()).send().await.is_err());
    let response = client.get(server.url()).send().await.unwrap();
    assert_eq!(response.extensions().get::<idem_client::Delivery>(), None);
    assert!(
        server
            .seen()
            .iter()
            .all(|seen| !seen.headers.contains_key("idempotency-key"))
    );
}

#[tokio::test]
async fn scopes_of_one_store_do_not_share_intents() {
    let server = Server::start([]).await;
    let store: std::sync::Arc<dyn idem_core::IdempotencyStore> =
        std::sync::Arc::new(MemoryStore::new());
    let mut keys = Vec::new();
    for scope in ["account-1", "account-2", "account-1"] {
        let scoped = idem_client::StoreKeys::new(store.clone(), scope).unwrap();
        let client = client(settings(scoped, Protocol::ietf()));
        let response = post(&client, &server.url(), "a").send().await.unwrap();
        is(&response, 200, 1, Answer::Unknown);
        keys.push(delivery(&response).key.as_str().to_owned());
    }
    assert_eq!(keys[0], keys[2]);
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn errors_and_deliveries_show_neither_key_nor_body() {
    let server = Server::start([]).await;
    let client = ietf();
    let response = post(&client, &server.url(), "order-17")
        .send()
        .await
        .unwrap();
    let key = delivery(&response).key.as_str().to_owned();
    let result = post(&client, &server.url(), "order-17")
        .body("other")
        .send()
        .await;
    let shown = format!(
        "{:?} {:?} {}",
        delivery(&response),
        error(&result),
        error(&result)
    );
    for secret in [key.as_str(), "order-17", BODY, "other\""] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
