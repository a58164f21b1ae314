//! CloudEvents: identity in three modes, batches, and the handshake.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::Duration;

use crate::support::Fragile;
use idem_core::{Bytes, Idempotency, MemoryStore, Work};
use idem_webhooks::http::{Method, Request, StatusCode};
use idem_webhooks::{
    Answer, CloudEvents, Event, Provider, Received, Receiver, Rejection, Signature, Verifier,
    policy,
};
use proptest::prelude::*;

fn provider() -> Provider {
    Provider::cloud_events(CloudEvents::new())
}

fn unsigned(store: impl idem_core::IdempotencyStore) -> Receiver {
    let verifier = Verifier::unsigned(provider()).unwrap();
    Receiver::new(store, verifier, "broker").unwrap()
}

fn request(kind: &str, headers: &[(&str, &str)], body: &str) -> Request<Bytes> {
    let mut request = Request::post("/events").header("content-type", kind);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request
        .body(Bytes::copy_from_slice(body.as_bytes()))
        .unwrap()
}

fn binary(source: &str, id: &str, body: &str) -> Request<Bytes> {
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-type", "com.example.someevent"),
        ("ce-source", source),
        ("ce-id", id),
    ];
    request("application/json", &headers, body)
}

fn event(source: &str, id: &str, data: u8) -> String {
    format!(
        r#"{{"specversion":"1.0","type":"t","source":"{source}","id":"{id}","data":{{"n":{data}}}}}"#
    )
}

fn structured(event: &str) -> Request<Bytes> {
    request("application/cloudevents+json; charset=UTF-8", &[], event)
}

fn batch(events: &[String]) -> Request<Bytes> {
    let body = format!("[{}]", events.join(", "));
    request("Application/CloudEvents-Batch+JSON", &[], &body)
}

/// Handles events, except those whose id is listed as failing, and notes the ids.
#[derive(Default)]
struct Handler {
    handled: Mutex<Vec<String>>,
    failing: Mutex<BTreeSet<&'static str>>,
}

impl Handler {
    async fn receive(&self, receiver: &Receiver, request: &Request<Bytes>) -> Answer<String> {
        let handler = async |event: Event, _: Work| {
            if self.failing.lock().unwrap().contains(event.id()) {
                return Err("no".to_owned());
            }
            self.handled.lock().unwrap().push(event.id().to_owned());
            Ok(())
        };
        receiver.receive(request, handler).await
    }

    fn handled(&self) -> Vec<String> {
        self.handled.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn source_and_id_identify_an_event_in_both_single_modes() {
    let (receiver, handler) = (unsigned(MemoryStore::new()), Handler::default());
    for (request, is_new) in [
        (binary("/a", "1", "{}"), true),
        (binary("/a", "1", "{}"), false),
        (binary("/a", "2", "{}"), true),
        (binary("/b", "1", "{}"), true),
        (binary("/%61", "%31", "{}"), false),
        (structured(&event("/c", "1", 1)), true),
        (structured(&event("/c", "1", 1)), false),
        (structured(&event("/c", "2", 1)), true),
        (batch(&[event("/c", "2", 1)]), false),
    ] {
        let answer = handler.receive(&receiver, &request).await;
        let received = match answer.received {
            Received::Batch(mut events) => events.remove(0),
            received => received,
        };
        match received {
            Received::Handled => assert!(is_new, "{request:?}"),
            Received::Duplicate { .. } => assert!(!is_new, "{request:?}"),
            other => panic!("{request:?}: {other:?}"),
        }
    }
    for other in [binary("/a", "1", "[]"), structured(&event("/c", "1", 2))] {
        let answer = handler.receive(&receiver, &other).await;
        assert!(matches!(answer.received, Received::Conflict), "{answer:?}");
    }
}

#[tokio::test]
async fn the_handler_sees_source_id_and_type() {
    let receiver = unsigned(MemoryStore::new());
    let long = format!("/{}", "x".repeat(1000));
    let source = format!("%2Fmycontext%20%E2%82%AC{long}");
    let request = binary(&source, "1234-1234-1234", "{}");
    let handler = async |event: Event, _: Work| {
        assert_eq!(event.namespace().unwrap(), format!("/mycontext €{long}"));
        assert_eq!(event.id(), "1234-1234-1234");
        assert_eq!(event.topic(), Some("com.example.someevent"));
        Ok::<_, String>(())
    };
    let answer = receiver.receive(&request, handler).await;
    assert!(matches!(answer.received, Received::Handled), "{answer:?}");
}

#[tokio::test]
async fn events_that_cannot_be_read_are_refused() {
    let (receiver, handler) = (unsigned(MemoryStore::new()), Handler::default());
    let json = "application/json";
    let cases = [
        (binary("", "1", "{}"), 400),
        (binary("/a", " ", "{}"), 400),
        (binary("/a", "%C0%A0", "{}"), 400),
        (binary("/a", "%20", "{}"), 400),
        (request(json, &[("ce-id", "1")], "{}"), 400),
        (request(json, &[("ce-source", "/a")], "{}"), 400),
        (
            request(
                json,
                &[("ce-source", "/a"), ("ce-id", "1"), ("ce-id", "2")],
                "{}",
            ),
            400,
        ),
        (structured(""), 400),
        (structured("[]"), 400),
        (structured(r#"{"id":"1"}"#), 400),
        (structured(r#"{"id":1,"source":"/a"}"#), 400),
        (
            structured(r#"{"id":"1","source":"/a","data":{"x":1,"x":1}}"#),
            400,
        ),
        (request("application/cloudevents+avro", &[], "x"), 415),
        (request("application/cloudevents-batch+avro", &[], "x"), 415),
        (request("application/cloudevents", &[], "{}"), 415),
        (
            request("application/cloudevents-batch+json", &[], "{}"),
            400,
        ),
    ];
    for (request, expected) in cases {
        let answer = handler.receive(&receiver, &request).await;
        assert_eq!(answer.status(), expected, "{request:?}: {answer:?}");
    }
    // Each element costs a hundred times its size.
    for (events, is_read) in [(10_000, true), (10_001, false)] {
        let answer = handler
            .receive(&receiver, &batch(&vec!["0".to_owned(); events]))
            .await;
        assert_eq!(matches!(answer.received, Received::Batch(_)), is_read);
    }
    assert!(handler.handled().is_empty());
}

#[tokio::test]
async fn a_batch_is_repeated_until_every_event_is_done() {
    let (receiver, handler) = (unsigned(MemoryStore::new()), Handler::default());
    let events: Vec<_> = ["1", "2", "3"].map(|id| event("/a", id, 1)).into();
    handler.failing.lock().unwrap().insert("2");
    for _ in 0..2 {
        let answer = handler.receive(&receiver, &batch(&events)).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.response().body(), "2 of 3 events are done");
        assert!(!answer.received.is_done() && answer.received.is_retryable());
        assert_eq!(handler.handled(), ["1", "3"], "nothing is handled twice");
    }
    handler.failing.lock().unwrap().clear();
    let answer = handler.receive(&receiver, &batch(&events)).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(handler.handled(), ["1", "3", "2"]);
    let answer = handler.receive(&receiver, &batch(&events)).await;
    assert_eq!(
        (answer.status(), handler.handled().len()),
        (StatusCode::OK, 3)
    );
}

#[tokio::test]
async fn an_event_that_never_succeeds_does_not_hide_one_that_may() {
    let (receiver, handler) = (unsigned(MemoryStore::new()), Handler::default());
    let known = event("/a", "1", 1);
    handler.receive(&receiver, &structured(&known)).await;
    handler.failing.lock().unwrap().insert("2");
    let events = [
        event("/a", "1", 2),
        "{}".to_owned(),
        event("/a", "2", 1),
        event("/a", "3", 1),
    ];
    let answer = handler.receive(&receiver, &batch(&events)).await;
    let Received::Batch(received) = &answer.received else {
        panic!("{answer:?}");
    };
    assert!(matches!(received[0], Received::Conflict), "{received:?}");
    assert!(
        matches!(received[1], Received::Rejected(Rejection::NoId)),
        "{received:?}"
    );
    assert!(matches!(received[2], Received::Error(_)), "{received:?}");
    assert!(matches!(received[3], Received::Handled), "{received:?}");
    assert_eq!(answer.status(), 500, "the third may succeed");
    handler.failing.lock().unwrap().clear();
    let answer = handler.receive(&receiver, &batch(&events)).await;
    assert_eq!(answer.status(), 422, "the first never will");
    assert!(!answer.received.is_retryable());
}

#[tokio::test]
async fn an_event_twice_in_a_batch_is_handled_once_and_an_empty_batch_is_done() {
    let (receiver, handler) = (unsigned(MemoryStore::new()), Handler::default());
    let events = [event("/a", "1", 1), event("/a", "1", 1)];
    let answer = handler.receive(&receiver, &batch(&events)).await;
    assert_eq!(
        (answer.status().as_u16(), handler.handled().len()),
        (200, 1)
    );
    let answer = handler.receive(&receiver, &batch(&[])).await;
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn while_the_store_is_away_a_batch_is_repeated() {
    let store = Fragile::default();
    let policy = policy().with_retry_timeout(Duration::from_millis(60));
    let engine = Idempotency::new(store.clone()).with_policy(policy);
    let receiver = unsigned(store.clone()).with_idempotency(engine);
    let handler = Handler::default();
    let events = [event("/a", "1", 1), event("/a", "2", 1)];
    Fragile::set(&store.is_down, true);
    let answer = handler.receive(&receiver, &batch(&events)).await;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.response().headers()["retry-after"], "5");
    Fragile::set(&store.is_down, false);
    let answer = handler.receive(&receiver, &batch(&events)).await;
    assert_eq!(
        (answer.status().as_u16(), handler.handled().len()),
        (200, 2)
    );
}

#[tokio::test]
async fn a_signature_covers_the_whole_batch() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let signed = provider().with_signature(Signature::standard_webhooks());
    let verifier = Verifier::new(signed, secret).unwrap();
    let receiver = Receiver::new(MemoryStore::new(), verifier.clone(), "broker").unwrap();
    let handler = Handler::default();
    let mut delivery = batch(&[event("/a", "1", 1), event("/a", "2", 1)]);
    assert_eq!(handler.receive(&receiver, &delivery).await.status(), 401);
    let headers = delivery.headers_mut();
    headers.insert("webhook-id", "msg_1".parse().unwrap());
    verifier.sign(&mut delivery).unwrap();
    let answer = handler.receive(&receiver, &delivery).await;
    assert_eq!(
        (answer.status().as_u16(), handler.handled().len()),
        (200, 2)
    );
    *delivery.body_mut() = batch(&[event("/a", "3", 1)]).into_body();
    assert_eq!(handler.receive(&receiver, &delivery).await.status(), 401);
}

#[tokio::test]
async fn a_handshake_is_answered_for_permitted_origins() {
    let origin = "eventemitter.example.com";
    let none = CloudEvents::new();
    let one = CloudEvents::new().with_allowed_origin(origin);
    let any = CloudEvents::new().with_any_origin();
    let limited = one.clone().with_allowed_rate(NonZeroU32::new(120).unwrap());
    for (rules, asks, expected) in [
        (none, Some(origin), None),
        (one.clone(), Some("EventEmitter.example.com"), Some("*")),
        (one.clone(), Some("other.example.com"), None),
        (one.clone(), Some(""), None),
        (one, None, None),
        (limited, Some(origin), Some("120")),
        (any.clone(), Some("other.example.com"), Some("*")),
        (any, None, None),
    ] {
        let signed = Provider::cloud_events(rules).with_signature(Signature::standard_webhooks());
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let verifier = Verifier::new(signed, secret).unwrap();
        let receiver = Receiver::new(MemoryStore::new(), verifier, "broker").unwrap();
        let headers: Vec<_> = asks
            .map(|asks| ("webhook-request-origin", asks))
            .into_iter()
            .collect();
        let mut options = request("text/plain", &headers, "");
        *options.method_mut() = Method::OPTIONS;
        let answer = Handler::default().receive(&receiver, &options).await;
        let response = answer.response();
        assert_eq!(response.headers()["allow"], "POST");
        let allowed = response.headers().get("webhook-allowed-origin");
        let rate = response.headers().get("webhook-allowed-rate");
        assert_eq!(
            rate.map(|rate| rate.to_str().unwrap()),
            expected,
            "{asks:?}"
        );
        assert_eq!(
            allowed.map(|name| name.to_str().unwrap()),
            expected.and(asks)
        );
        let status = if expected.is_some() { 200 } else { 405 };
        assert_eq!(response.status(), status);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        kind in prop::sample::select(&[
            "application/json", "application/cloudevents+json", "application/cloudevents-batch+json",
        ][..]),
        source in "[ -~]{0,40}",
        id in "[ -~]{0,40}",
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..100),
            "[\\[\\]{}\",:idsource0-9 ]{0,100}".prop_map(String::into_bytes),
        ],
    ) {
        let mut delivery = request(kind, &[("ce-source", &source), ("ce-id", &id)], "");
        *delivery.body_mut() = body.into();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let receiver = unsigned(MemoryStore::new());
        let answer = runtime.block_on(Handler::default().receive(&receiver, &delivery));
        prop_assert!(answer.status().as_u16() < 500);
    }
}
