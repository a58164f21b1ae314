//! Providers by configuration, and statuses.

use crate::support::request::signed;
use idem_core::{IdempotencyStore, MemoryStore, Work};
use idem_webhooks::http::{HeaderName, StatusCode};
use idem_webhooks::{
    Compared, Event, EventId, Part, Provider, Received, Receiver, Signature, Statuses, Verifier,
};

fn header(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

async fn ok(_: Event, _: Work) -> Result<(), String> {
    Ok(())
}

fn receiver(provider: Provider, store: impl IdempotencyStore) -> (Receiver, Verifier) {
    let verifier = Verifier::new(provider, "secret").unwrap();
    (
        Receiver::new(store, verifier.clone(), "acme").unwrap(),
        verifier,
    )
}

fn plain() -> Signature {
    Signature::hmac_sha256(header("x-signature"))
}

#[tokio::test]
async fn the_id_may_be_in_a_header_or_in_the_body() {
    for (id, body) in [
        (EventId::header(header("x-id")), "no JSON"),
        (EventId::pointer("/data/id"), r#"{"data":{"id":"1"}}"#),
        (
            EventId::pointer("/data/id"),
            r#"{"data":{"id":820982911946154508}}"#,
        ),
        (EventId::pointer(""), "18446744073709551615"),
        (EventId::pointer("/a~1b/m~0n"), r#"{"a/b":{"m~n":"1"}}"#),
    ] {
        let provider = Provider::new("acme", id).with_signature(plain());
        let (receiver, verifier) = receiver(provider, MemoryStore::new());
        let delivery = signed(&verifier, &[("x-id", "1")], body.as_bytes());
        let first = receiver.receive(&delivery, ok).await;
        assert!(
            matches!(first.received, Received::Handled),
            "{body}: {first:?}"
        );
        let second = receiver.receive(&delivery, ok).await;
        assert!(
            matches!(second.received, Received::Duplicate { .. }),
            "{body}: {second:?}"
        );
    }
}

#[tokio::test]
async fn an_id_that_is_missing_or_no_text_is_refused() {
    for body in [
        "",
        "no",
        "{}",
        r#"{"id":null}"#,
        r#"{"id":1.5}"#,
        r#"{"id":[]}"#,
        r#"{"id":""}"#,
    ] {
        let provider = Provider::new("acme", EventId::pointer("/id")).with_signature(plain());
        let (receiver, verifier) = receiver(provider, MemoryStore::new());
        let delivery = signed(&verifier, &[], body.as_bytes());
        let answer = receiver.receive(&delivery, ok).await;
        assert_eq!(answer.status(), 400, "{body}: {answer:?}");
    }
}

#[tokio::test]
async fn the_configuration_says_what_is_compared() {
    let (one, reordered, other) = (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1.0}"#, r#"{"a":1,"b":3}"#);
    for (compared, expected) in [
        (Compared::Bytes, [false, false]),
        (Compared::Json, [true, false]),
        (Compared::fields(["/a"]), [true, true]),
        (Compared::Nothing, [true, true]),
    ] {
        let id = EventId::header(header("x-id")).with_compared(compared.clone());
        let provider = Provider::new("acme", id).with_signature(plain());
        let (receiver, verifier) = receiver(provider, MemoryStore::new());
        let deliver = async |body: &str| {
            let delivery = signed(&verifier, &[("x-id", "1")], body.as_bytes());
            receiver.receive(&delivery, ok).await.received
        };
        assert!(matches!(deliver(one).await, Received::Handled));
        for (body, is_same) in [reordered, other].into_iter().zip(expected) {
            match deliver(body).await {
                Received::Duplicate { .. } => assert!(is_same, "{compared:?}"),
                Received::Conflict => assert!(!is_same, "{compared:?}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn ids_are_unique_within_their_namespace() {
    let id = EventId::pointer("/id").within_pointer("/account");
    let provider = Provider::new("acme", id).with_signature(plain());
    let store = MemoryStore::new();
    let (receiver, verifier) = receiver(provider, store.clone());
    for (account, id) in [("a b", "c"), ("a", "b c"), ("b", "c")] {
        let body = format!(r#"{{"account":"{account}","id":"{id}"}}"#);
        let delivery = signed(&verifier, &[], body.as_bytes());
        let handler = async |event: Event, _: Work| {
            assert_eq!((event.namespace(), event.id()), (Some(account), id));
            Ok::<_, String>(())
        };
        let answer = receiver.receive(&delivery, handler).await;
        assert!(matches!(answer.received, Received::Handled), "{answer:?}");
        let key = receiver.key(&[account, id]).unwrap();
        assert!(store.get(&key).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn the_provider_decides_the_statuses() {
    let statuses = Statuses::default()
        .with_done(StatusCode::ACCEPTED)
        .with_conflict(StatusCode::GONE)
        .with_error(StatusCode::BAD_GATEWAY)
        .with_unverified(StatusCode::FORBIDDEN)
        .with_unreadable(StatusCode::NOT_FOUND);
    let provider = Provider::new("acme", EventId::header(header("x-id")))
        .with_signature(plain())
        .with_statuses(statuses);
    let (receiver, verifier) = receiver(provider, MemoryStore::new());
    let status = async |delivery| receiver.receive(&delivery, ok).await.status().as_u16();
    let delivery = |id, body: &str| signed(&verifier, &[("x-id", id)], body.as_bytes());
    assert_eq!(status(delivery("1", "a")).await, 202);
    assert_eq!(status(delivery("1", "a")).await, 202);
    assert_eq!(status(delivery("1", "b")).await, 410);
    assert_eq!(status(delivery("", "b")).await, 404);
    let mut forged = delivery("2", "a");
    *forged.body_mut() = "b".into();
    assert_eq!(status(forged).await, 403);
    let failing = async |_: Event, _: Work| Err("no".to_owned());
    let answer = receiver.receive(&delivery("3", "a"), failing).await;
    assert_eq!(answer.status(), 502);
}

#[test]
fn a_configuration_that_proves_nothing_is_refused() {
    let id = || EventId::header(header("x-id"));
    let time = header("x-time");
    for signature in [
        plain().with_signed([Part::Text("fixed".into())]),
        plain().with_signed([Part::Time, Part::Body]),
        plain().with_time_header(time),
    ] {
        let provider = Provider::new("acme", id()).with_signature(signature);
        assert!(Verifier::new(provider, "secret").is_err());
    }
    for wrong in [
        EventId::pointer("id"),
        EventId::pointer("/id~2"),
        id().with_topic_pointer("~"),
        id().with_compared(Compared::fields(["a"])),
        id().with_compared(Compared::fields::<String>([])),
    ] {
        let provider = Provider::new("acme", wrong).with_signature(plain());
        assert!(Verifier::new(provider, "secret").is_err());
    }
    let without = Provider::new("acme", id());
    assert!(Verifier::new(without.clone(), "secret").is_err());
    let unsigned = Verifier::unsigned(without).unwrap();
    assert!(unsigned.with_secret("secret").is_err());
    let unnamed = Verifier::unsigned(Provider::new("\n", id())).unwrap();
    assert!(Receiver::new(MemoryStore::new(), unnamed, "acme").is_err());
}
