//! Events that a typed handler reads and a generic JSON parser refuses.

use std::sync::atomic::{AtomicUsize, Ordering};

use idem_core::{MemoryStore, Work};
use idem_webhooks::http::HeaderName;
use idem_webhooks::{
    CloudEvents, Compared, Event, EventId, Provider, Received, Receiver, Signature, Verifier,
};

use crate::support::request::signed;

fn skipped() -> Vec<Vec<u8>> {
    let deep = ["[".repeat(200), "]".repeat(200)].concat();
    vec![
        b"1".to_vec(),
        br#""\ud83d""#.to_vec(),
        b"1e999".to_vec(),
        deep.into_bytes(),
        b"\"\xff\"".to_vec(),
    ]
}

fn filled(template: &str, skipped: &[u8]) -> Vec<u8> {
    let (before, after) = template.split_once("SKIPPED").unwrap();
    [before.as_bytes(), skipped, after.as_bytes()].concat()
}

#[tokio::test]
async fn an_event_is_known_whatever_its_text_holds() {
    let signature = || Signature::hmac_sha256(HeaderName::from_static("x-signature"));
    let own = |compared| {
        let id = EventId::pointer("/id").with_compared(compared);
        Provider::new("acme", id).with_signature(signature())
    };
    let cloud = || Provider::cloud_events(CloudEvents::new()).with_signature(signature());
    // The second template is another delivery of the event, the third another event with its id.
    for (provider, kind, templates) in [
        (
            Provider::slack(),
            "",
            [
                r#"{"event_id":"E","event_time":1,"event":{"type":"m","text":SKIPPED}}"#,
                r#"{"event_id":"E","event_time":1,"try":2,"event":{"type":"m","text":SKIPPED}}"#,
                r#"{"event_id":"E","event_time":2,"event":{"type":"m","text":SKIPPED}}"#,
            ],
        ),
        (
            Provider::stripe(),
            "",
            [
                r#"{"id":"E","type":"t","data":{"object":{"id":SKIPPED}},"pending_webhooks":2}"#,
                r#"{"id":"E","type":"t","data":{"object":{"id":SKIPPED}},"pending_webhooks":1}"#,
                r#"{"id":"E","type":"t","data":{"object":{"id":[SKIPPED]}}}"#,
            ],
        ),
        (
            own(Compared::Json),
            "",
            [
                r#"{"id":820982911946154508,"x":SKIPPED}"#,
                r#"{"id":820982911946154508,"x":SKIPPED}"#,
                r#"{"id":820982911946154508,"y":SKIPPED}"#,
            ],
        ),
        (
            own(Compared::fields(["/x"])),
            "",
            [
                r#"{"id":"E","x":SKIPPED,"y":1}"#,
                r#"{"id":"E","x":SKIPPED,"y":2}"#,
                r#"{"id":"E","x":[SKIPPED]}"#,
            ],
        ),
        (
            cloud(),
            "application/cloudevents+json",
            [
                r#"{"id":"E","source":"s","type":"t","data":SKIPPED}"#,
                r#"{"id":"E","source":"s","type":"t","time":2,"data":SKIPPED}"#,
                r#"{"id":"E","source":"s","type":"u","data":SKIPPED}"#,
            ],
        ),
        (
            cloud(),
            "application/cloudevents-batch+json",
            [
                r#"[{"id":"E","source":"s","type":"t","data":SKIPPED}]"#,
                r#"[ {"id":"E","source":"s","type":"t","data":SKIPPED} ]"#,
                r#"[{"id":"E","source":"s","type":"u","data":SKIPPED}]"#,
            ],
        ),
    ] {
        for skipped in skipped() {
            let name = provider.operation().to_owned();
            let verifier = Verifier::new(provider.clone(), "secret").unwrap();
            let receiver = Receiver::new(MemoryStore::new(), verifier.clone(), "shop").unwrap();
            let times = AtomicUsize::new(0);
            let mut answers = Vec::new();
            for template in templates {
                let handler = async |_: Event, _: Work| {
                    times.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, String>(())
                };
                let body = filled(template, &skipped);
                let delivery = signed(&verifier, &[("content-type", kind)], &body);
                answers.push(receiver.receive(&delivery, handler).await);
            }
            let shown = format!(
                "{name}, {kind}, {:?}: {answers:?}",
                String::from_utf8_lossy(&skipped)
            );
            assert_eq!(times.into_inner(), 1, "{shown}");
            assert!(answers[1].status().is_success(), "{shown}");
            assert!(!answers[2].status().is_success(), "{shown}");
        }
    }
}

#[tokio::test]
async fn an_id_with_two_readings_or_that_is_no_text_is_refused() {
    let id = EventId::pointer("/id");
    let signature = Signature::hmac_sha256(HeaderName::from_static("x-signature"));
    let provider = Provider::new("acme", id).with_signature(signature);
    let verifier = Verifier::new(provider, "secret").unwrap();
    let receiver = Receiver::new(MemoryStore::new(), verifier.clone(), "shop").unwrap();
    for body in [
        &br#"{"id":"a","id":"b"}"#[..],
        br#"{"id":"a","\u0069d":"b"}"#,
        br#"{"id":"a","x":{"y":1,"\u0079":"\ud83d"}}"#,
        br#"{"id":"\ud83d"}"#,
        b"{\"id\":\"\xff\"}",
        br#"["a"]"#,
    ] {
        let handler = async |_: Event, _: Work| Err::<(), _>("must not run".to_owned());
        let answer = receiver
            .receive(&signed(&verifier, &[], body), handler)
            .await;
        assert!(
            matches!(answer.received, Received::Rejected(_)),
            "{answer:?}"
        );
        assert_eq!(answer.status(), 400);
    }
}
