//! Providers by configuration, and statuses.

use std::time::Duration;

use crate::support::clock::FixedClock;
use crate::support::request::{request, signed};
use ed25519_dalek::Signer;
use idem_core::{IdempotencyStore, MemoryStore, Work};
use idem_webhooks::http::{HeaderName, StatusCode};
use idem_webhooks::{
    Compared, Encoding, Event, EventId, Part, Provider, Received, Receiver, Rejection, Signature,
    Statuses, TimeFormat, Verifier,
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

const NOW: u64 = 1_700_000_000;

fn signing(parts: impl IntoIterator<Item = Part>) -> idem_core::Result<Verifier> {
    let parts: Vec<_> = parts.into_iter().collect();
    let signature = match parts.contains(&Part::Time) {
        true => plain().with_time_header(header("x-time")),
        false => plain(),
    };
    let provider = Provider::new("acme", EventId::header(header("x-id")));
    let provider = provider.with_signature(signature.with_signed(parts));
    Ok(Verifier::new(provider, "secret")?.with_clock(FixedClock::at(NOW)))
}

/// `ab` and `c` have the content of `a` and `bc`.
#[test]
fn a_signature_that_would_fit_two_deliveries_is_refused() {
    let text = |text: &'static str| Part::Text(text.into());
    let (id, other) = (
        || Part::Header(header("x-id")),
        || Part::Header(header("x-o")),
    );
    for parts in [
        vec![id(), Part::Body],
        vec![id(), Part::Time, Part::Body],
        vec![Part::Time, id(), Part::Body],
        vec![id(), other(), text("."), Part::Body],
        vec![id(), text(""), Part::Body],
        vec![Part::Body, id()],
        vec![Part::Body, text("."), other(), id()],
        vec![Part::Body, text("."), Part::Body],
    ] {
        assert!(signing(parts.clone()).is_err(), "{parts:?}");
    }
    for parts in [
        vec![Part::HeaderOfLength(header("x-id"), 36), Part::Body],
        vec![Part::Time, Part::Body, Part::Time],
        vec![text("v1"), id(), text("."), other(), text("."), Part::Body],
        vec![Part::Body, text("."), id(), text("."), other()],
    ] {
        assert!(signing(parts.clone()).is_ok(), "{parts:?}");
    }
}

#[test]
fn a_character_that_moves_to_the_part_beside_it_is_refused() {
    let id = || Part::Header(header("x-id"));
    let colons = || Part::Text("::".into());
    for (parts, genuine, forged) in [
        (
            vec![Part::HeaderOfLength(header("x-id"), 4), Part::Body],
            ("abc1", "", "2{}"),
            ("abc12", "", "{}"),
        ),
        (
            vec![id(), colons(), Part::Body],
            ("a", "", ":b"),
            ("a:", "", "b"),
        ),
        (
            vec![Part::Body, colons(), id()],
            ("c", "", "a::b"),
            ("b::c", "", "a"),
        ),
        (
            vec![Part::Body, colons(), id()],
            ("b", "", "a:"),
            (":b", "", "a"),
        ),
        (
            vec![Part::Time, Part::Body],
            ("a", "1700000000", "1{}"),
            ("a", "17000000001", "{}"),
        ),
        (
            vec![Part::Body, Part::Time],
            ("a", "1700000000", "{}1"),
            ("a", "11700000000", "{}"),
        ),
    ] {
        let verifier = signing(parts).unwrap().with_tolerance(Duration::MAX);
        let (id, time, body) = genuine;
        let own = signed(&verifier, &[("x-id", id)], body.as_bytes());
        assert_eq!(verifier.verify(&own), Ok(()));
        assert_eq!(
            own.headers()
                .get("x-time")
                .map_or("", |time| time.to_str().unwrap()),
            time
        );
        let signature = own.headers()["x-signature"].to_str().unwrap();
        let (id, time, body) = forged;
        let headers = [("x-id", id), ("x-time", time), ("x-signature", signature)];
        let answer = verifier.verify(&request(&headers, body.as_bytes()));
        assert_eq!(answer, Err(Rejection::MalformedSignature), "{forged:?}");
    }
}

#[test]
fn a_time_has_one_form() {
    use TimeFormat::{Milliseconds, Rfc3339, Seconds};
    let digest = "0".repeat(64);
    for (format, time, is_right) in [
        (Seconds, "1700000000", true),
        (Seconds, "170000000", false),
        (Seconds, "0170000000", false),
        (Seconds, "1700000000000", false),
        (Milliseconds, "1700000000123", true),
        (Milliseconds, "1700000000", false),
        (Rfc3339, "2023-11-14T22:13:20Z", true),
        (Rfc3339, "2023-11-14T22:13:20.634234626Z", true),
        (Rfc3339, "2023-11-14T22:13:20.Z", false),
        (Rfc3339, "2023-11-14 22:13:20Z", false),
        (Rfc3339, "2023-11-14T22:13:20+00:00", false),
        (Rfc3339, "2023-13-14T22:13:20Z", false),
    ] {
        let signature = plain()
            .with_time_header(header("x-time"))
            .with_time_format(format)
            .with_signed([Part::Time, Part::Body]);
        let provider = Provider::new("acme", EventId::pointer("")).with_signature(signature);
        let verifier = Verifier::new(provider, "secret").unwrap();
        let answer = verifier.verify(&request(&[("x-time", time), ("x-signature", &digest)], b""));
        let expected = match is_right {
            true => Rejection::WrongSignature,
            false => Rejection::MalformedSignature,
        };
        assert_eq!(answer, Err(expected), "{time}");
        let verifier = verifier.with_clock(FixedClock::at(NOW));
        let own = signed(&verifier, &[], b"");
        assert_eq!(verifier.verify(&own), Ok(()), "{:?}", own.headers());
    }
}

/// The first digest was made with Python's `hmac`.
#[test]
fn keys_are_read_in_their_encoding() {
    let sha1 = Signature::hmac_sha1(header("x-signature"));
    let digest = "cdabbed98766550caa3c58143987e4dcbc12bbe3";
    for (encoding, key) in [(Encoding::Hex, "00112233"), (Encoding::Base64, "ABEiMw")] {
        let signature = sha1.clone().with_key_encoding(encoding);
        let provider = Provider::new("acme", EventId::pointer("")).with_signature(signature);
        let verifier = Verifier::new(provider.clone(), key).unwrap();
        let delivery = request(&[("x-signature", digest)], b"{}");
        assert_eq!(verifier.verify(&delivery), Ok(()), "{key}");
        assert!(Verifier::new(provider, "no key").is_err());
    }
    // Discord's: the public key and the signature in hexadecimal, over time and body.
    let pair = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let hex = base16ct::lower::encode_string;
    let signature = Signature::ed25519(header("x-signature"))
        .with_time_header(header("x-time"))
        .with_signed([Part::Time, Part::Body]);
    let discord = Provider::new("discord", EventId::pointer("/id")).with_signature(signature);
    let verifier = Verifier::new(discord.clone(), hex(pair.verifying_key().as_bytes())).unwrap();
    let verifier = verifier.with_clock(FixedClock::at(NOW));
    let made = hex(&pair.sign(b"1700000000{}").to_bytes());
    for (body, expected) in [("{}", Ok(())), ("{ }", Err(Rejection::WrongSignature))] {
        let headers = [("x-time", "1700000000"), ("x-signature", &made)];
        assert_eq!(
            verifier.verify(&request(&headers, body.as_bytes())),
            expected
        );
    }
    assert!(Verifier::new(discord, "00").is_err());
}

#[tokio::test]
async fn a_delivery_of_several_events_has_a_record_for_each() {
    let id = EventId::pointer("/webhookEventId")
        .with_topic_pointer("/type")
        .with_compared(Compared::fields(["/type", "/timestamp"]))
        .with_events("/events");
    let provider = Provider::new("line", id).with_signature(plain());
    let (receiver, verifier) = receiver(provider, MemoryStore::new());
    let event = |id, again| {
        format!(
            r#"{{"type":"message","webhookEventId":"{id}","deliveryContext":{{"isRedelivery":{again}}}}}"#
        )
    };
    let deliver = async |events: &[String]| {
        let body = format!(r#"{{"destination":"U","events":[{}]}}"#, events.join(","));
        let answer = receiver
            .receive(&signed(&verifier, &[], body.as_bytes()), ok)
            .await;
        (answer.status().as_u16(), format!("{:?}", answer.received))
    };
    // LINE checks an endpoint by a delivery without events.
    assert_eq!(deliver(&[]).await, (200, "Batch([])".to_owned()));
    let first = deliver(&[event("1", false), event("2", false)]).await;
    assert_eq!(first, (200, "Batch([Handled, Handled])".to_owned()));
    let (status, second) = deliver(&[event("2", true), event("3", false)]).await;
    assert!(
        second.starts_with("Batch([Duplicate") && second.ends_with("Handled])"),
        "{second}"
    );
    assert_eq!(status, 200);
    let no_events = signed(&verifier, &[], br#"{"events":{}}"#);
    assert_eq!(receiver.receive(&no_events, ok).await.status(), 400);
}

#[tokio::test]
async fn a_challenge_is_answered_only_if_signed() {
    let provider = Provider::new("twitch", EventId::header(header("x-id")))
        .with_signature(plain())
        .with_challenge(|request| {
            let body: serde_json::Value = serde_json::from_slice(request.body()).ok()?;
            Some(body["challenge"].as_str()?.to_owned())
        });
    let (receiver, verifier) = receiver(provider, MemoryStore::new());
    let check = signed(&verifier, &[("x-id", "1")], br#"{"challenge":"c"}"#);
    let answer = receiver.receive(&check, ok).await;
    assert_eq!(
        (answer.status().as_u16(), answer.response().body()),
        (200, &"c".into())
    );
    let forged = request(&[("x-id", "1")], br#"{"challenge":"c"}"#);
    assert_eq!(receiver.receive(&forged, ok).await.status(), 401);
    let event = signed(&verifier, &[("x-id", "1")], br#"{"event":{}}"#);
    let answer = receiver.receive(&event, ok).await;
    assert!(matches!(answer.received, Received::Handled), "{answer:?}");
}
