//! The Ad Context Protocol: a key in the body, for each sender that the application has verified.

use std::time::Duration;

use crate::support::Fragile;
use idem_core::{Bytes, Idempotency, MemoryStore, Work};
use idem_webhooks::http::Request;
use idem_webhooks::{
    Event, Provider, Received, Receiver, Rejection, Sender, Verifier, Version, policy,
};
use tokio::sync::Notify;

fn receiver(store: impl idem_core::IdempotencyStore) -> Receiver {
    let verifier = Verifier::by_application(Provider::adcp()).unwrap();
    Receiver::new(store, verifier, "buyer").unwrap()
}

fn delivery(sender: Option<&str>, body: &str) -> Request<Bytes> {
    let mut request = Request::new(Bytes::copy_from_slice(body.as_bytes()));
    if let Some(sender) = sender {
        request.extensions_mut().insert(Sender::new(sender));
    }
    request
}

const KEY: &str = "whk_01HW9D3H8FZP2N6R8T0V4X6Z9B";

fn body(rest: &str) -> String {
    format!(r#"{{"idempotency_key":"{KEY}",{rest}}}"#)
}

async fn ok(_: Event, _: Work) -> Result<(), String> {
    Ok(())
}

#[tokio::test]
async fn a_completed_duplicate_is_200_and_another_payload_409() {
    let receiver = receiver(MemoryStore::new());
    let answer = async |body: &str| receiver.receive(&delivery(Some("a"), body), ok).await;
    let first = answer(&body(r#""status":"completed","n":1.0"#)).await;
    assert!(matches!(first.received, Received::Handled), "{first:?}");
    let same = answer(&body(r#""n": 1, "status": "completed""#)).await;
    assert!(
        matches!(same.received, Received::Duplicate { .. }),
        "{same:?}"
    );
    assert_eq!(same.status(), 200);
    let other = answer(&body(r#""status":"failed","n":1"#)).await;
    assert!(matches!(other.received, Received::Conflict), "{other:?}");
    assert_eq!(other.status(), 409);
    for unreadable in [
        body(r#""n":1,"n":1"#),
        "{}".to_owned(),
        r#"{"idempotency_key":" "}"#.to_owned(),
        r#"{"idempotency_key":null}"#.to_owned(),
        "no".to_owned(),
    ] {
        assert_eq!(answer(&unreadable).await.status(), 400, "{unreadable}");
    }
}

#[tokio::test]
async fn during_another_delivery_the_answer_is_503() {
    let receiver = receiver(MemoryStore::new());
    let (begun, answered) = (Notify::new(), Notify::new());
    let delivery = delivery(Some("a"), &body(r#""n":1"#));
    let first = receiver.receive(&delivery, async |_, _| {
        begun.notify_one();
        answered.notified().await;
        Ok::<_, String>(())
    });
    let second = async {
        begun.notified().await;
        let answer = receiver.receive(&delivery, ok).await;
        answered.notify_one();
        answer
    };
    let (first, second) = tokio::join!(first, second);
    assert!(matches!(first.received, Received::Handled), "{first:?}");
    assert!(
        matches!(second.received, Received::InFlight { .. }),
        "{second:?}"
    );
    assert_eq!(second.status(), 503);
    assert!(second.response().headers().contains_key("retry-after"));
}

#[tokio::test]
async fn each_sender_has_its_own_keys() {
    let receiver = receiver(MemoryStore::new());
    let body = body(r#""n":1"#);
    let long = format!("https://seller.example/{}", "x".repeat(500));
    for sender in ["https://a.example", "https://b.example", &long] {
        let handler = async |event: Event, _: Work| {
            assert_eq!(event.sender().map(Sender::name), Some(sender));
            assert_eq!((event.namespace(), event.id()), (None, KEY));
            Ok::<_, String>(())
        };
        let answer = receiver
            .receive(&delivery(Some(sender), &body), handler)
            .await;
        assert!(
            matches!(answer.received, Received::Handled),
            "{sender}: {answer:?}"
        );
        let answer = receiver.receive(&delivery(Some(sender), &body), ok).await;
        assert!(
            matches!(answer.received, Received::Duplicate { .. }),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn each_sender_has_its_own_versions() {
    let version = |event: &Event| {
        let number = event.json::<serde_json::Value>().ok()?["n"].as_u64()?;
        Some(Version::new("media_buy/1", number))
    };
    let receiver = receiver(MemoryStore::new()).with_versions(version).unwrap();
    let deliver = async |sender, key: &str, number: u64| {
        let body = format!(r#"{{"idempotency_key":"{key}","n":{number}}}"#);
        let answer = receiver.receive(&delivery(Some(sender), &body), ok).await;
        answer.received
    };
    assert!(matches!(deliver("a", "1", 5).await, Received::Handled));
    assert!(matches!(deliver("b", "1", 4).await, Received::Handled));
    let late = deliver("a", "2", 4).await;
    assert!(matches!(late, Received::Stale { current: 5 }), "{late:?}");
}

#[tokio::test]
async fn without_a_verified_sender_nothing_is_handled() {
    let receiver = receiver(MemoryStore::new());
    for sender in [None, Some(""), Some(" ")] {
        let delivery = delivery(sender, &body(r#""n":1"#));
        let answer = receiver.receive(&delivery, ok).await;
        let is_unsigned = matches!(answer.received, Received::Rejected(Rejection::Unsigned));
        assert!(is_unsigned, "{answer:?}");
        assert_eq!(answer.status(), 401);
    }
}

#[tokio::test]
async fn errors_of_handler_and_store_ask_for_a_retry() {
    let store = Fragile::default();
    let policy = policy().with_retry_timeout(Duration::from_millis(60));
    let engine = Idempotency::new(store.clone()).with_policy(policy);
    let receiver = receiver(store.clone()).with_idempotency(engine);
    let delivery = delivery(Some("a"), &body(r#""n":1"#));
    let failing = async |_: Event, _: Work| Err("no".to_owned());
    assert_eq!(receiver.receive(&delivery, failing).await.status(), 503);
    Fragile::set(&store.is_down, true);
    assert_eq!(receiver.receive(&delivery, ok).await.status(), 503);
    Fragile::set(&store.is_down, false);
    assert_eq!(receiver.receive(&delivery, ok).await.status(), 200);
}
