//! Each preset on the wire: where the key is, its form, and that a repeat is the same.

use std::time::{Duration, SystemTime};

use idem_client::{Answer, FileKeys, IssuedKey, Protocol};
use serde_json::Value;

use crate::support::{
    Act, Seen, Server, all_same, answer, client, delivery, is, memory, ok, post, settings,
};

/// Sends a request that is lost once, and returns it with its key.
async fn sent(protocol: Protocol) -> (Seen, IssuedKey) {
    let server = Server::start([Act::Drop, ok()]).await;
    let client = client(settings(memory(), protocol));
    let response = post(&client, &server.url(), "a").send().await.unwrap();
    let seen = server.seen();
    assert_eq!(all_same(&seen), 2);
    (seen[0].clone(), delivery(&response).key)
}

#[tokio::test]
async fn headers_carry_the_key() {
    for (protocol, header, is_quoted) in [
        (Protocol::ietf(), "idempotency-key", true),
        (Protocol::idem_http(), "idempotency-key", true),
        (Protocol::acp(), "idempotency-key", false),
        (Protocol::ucp_rest(), "idempotency-key", false),
        (Protocol::stripe(), "idempotency-key", false),
        (Protocol::adyen(), "idempotency-key", false),
        (Protocol::paypal(), "paypal-request-id", false),
    ] {
        let (seen, key) = sent(protocol).await;
        let expected = match is_quoted {
            true => format!("\"{}\"", key.as_str()),
            false => key.as_str().to_owned(),
        };
        assert_eq!(seen.header(header), expected);
    }
}

#[tokio::test]
async fn bodies_carry_the_key() {
    for (protocol, member) in [
        (Protocol::adcp(), "idempotency_key"),
        (Protocol::square(), "idempotency_key"),
        (Protocol::aws_style("/clientToken"), "clientToken"),
        (Protocol::aip155(), "request_id"),
    ] {
        let (seen, key) = sent(protocol).await;
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        assert_eq!(body[member], key.as_str());
        assert_eq!(body["amount"], 1250);
    }
}

#[tokio::test]
async fn iceberg_s_keys_grow_with_time() {
    let (seen, key) = sent(Protocol::iceberg(Duration::from_secs(1800))).await;
    assert_eq!(seen.key(), key.as_str());
    assert_eq!(key.as_str().as_bytes()[14], b'7');
}

#[tokio::test]
async fn the_first_instant_stays_the_same_over_tries_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let mut all = Vec::new();
    let server = Server::start([Act::Drop, ok(), Act::Drop, ok()]).await;
    for _ in 0..2 {
        let keys = FileKeys::open(&file).await.unwrap();
        let client = client(settings(keys, Protocol::azure()));
        let response = post(&client, &server.url(), "a").send().await.unwrap();
        is(&response, 200, 2, Answer::Unknown);
        all.push(delivery(&response).key);
        // The next round has another date, unless it is kept.
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }
    assert_eq!(all[0].as_str(), all[1].as_str());
    let seen = server.seen();
    assert_eq!(all_same(&seen), 4);
    assert_eq!(seen[0].header("repeatability-request-id"), all[0].as_str());
    let date = httpdate::parse_http_date(seen[0].header("repeatability-first-sent")).unwrap();
    assert!(SystemTime::now().duration_since(date).unwrap() >= Duration::from_secs(2));
}

#[tokio::test]
async fn a_stored_error_is_not_asked_for_again() {
    let replayed_500 = answer(500, "idempotent-replayed: true\r\n", "{}");
    let server = Server::start([replayed_500]).await;
    let client = client(settings(memory(), Protocol::stripe()));
    let response = post(&client, &server.url(), "a").send().await.unwrap();
    is(&response, 500, 1, Answer::Replayed);
    assert_eq!(delivery(&response).gave_up, None);
}

#[tokio::test]
async fn bytes_are_compared_where_the_server_compares_bytes() {
    let server = Server::start([]).await;
    let client = client(settings(memory(), Protocol::ucp_rest()));
    post(&client, &server.url(), "a").send().await.unwrap();
    let other = post(&client, &server.url(), "a").body(r#"{"amount":1250,"order":17}"#);
    assert!(other.send().await.is_err());
    assert_eq!(server.seen().len(), 1);
}
