//! The identity of an event, for each provider.

use crate::support::request::{request, signed};
use idem_core::{MemoryStore, Work};
use idem_webhooks::http::StatusCode;
use idem_webhooks::{Event, Provider, Received, Receiver, Verifier};

/// Two deliveries of one event, from another provider.
async fn twice(
    provider: Provider,
    extra: [&[(&'static str, &str)]; 2],
    bodies: [&str; 2],
) -> [u16; 2] {
    let verifier = Verifier::new(provider, "secret").unwrap();
    let receiver = Receiver::new(MemoryStore::new(), verifier.clone(), "shop").unwrap();
    let mut statuses = [0; 2];
    for ((status, body), extra) in statuses.iter_mut().zip(bodies).zip(extra) {
        let handler = async |event: Event, _: Work| {
            assert!(event.topic().is_some());
            Ok::<_, String>(())
        };
        let delivery = signed(&verifier, extra, body.as_bytes());
        let answer = receiver.receive(&delivery, handler).await;
        *status = match answer.received {
            Received::Duplicate { .. } => 208,
            _ => answer.status().as_u16(),
        };
    }
    statuses
}

#[tokio::test]
async fn a_stripe_event_is_known_by_its_id_whatever_is_still_pending() {
    let body = |id: &str, pending: u8| {
        format!(
            r#"{{"id":"{id}","type":"invoice.paid","created":1,"pending_webhooks":{pending},"data":{{"object":{{}}}}}}"#
        )
    };
    // During an upgrade, two endpoints get each event, in two versions.
    let other_version = body("evt_1", 1).replace(r#""object":{}"#, r#""object":{"amount":1}"#);
    for (first, second, expected) in [
        (&*body("evt_1", 2), &*body("evt_1", 1), [200, 208]),
        (&*body("evt_1", 2), &*other_version, [200, 208]),
        (&*body("evt_1", 2), &*body("evt_2", 2), [200, 200]),
        // An id of blanks is none.
        (&*body("", 1), &*body("   ", 1), [400, 400]),
        ("{}", "nonsense", [400, 400]),
    ] {
        let statuses = twice(Provider::stripe(), [&[], &[]], [first, second]).await;
        assert_eq!(statuses, expected, "{first}, {second}");
    }
}

#[tokio::test]
async fn a_shopify_event_is_known_by_its_topic_and_id() {
    let one: &[_] = &[
        ("x-shopify-topic", "orders/create"),
        ("x-shopify-event-id", "e1"),
    ];
    let same: &[_] = &[one[0], one[1], ("x-shopify-webhook-id", "another delivery")];
    let other: &[_] = &[("x-shopify-topic", "orders/paid"), one[1]];
    assert_eq!(
        twice(Provider::shopify(), [one, same], ["{}", "{}"]).await,
        [200, 208]
    );
    assert_eq!(
        twice(Provider::shopify(), [one, other], ["{}", "{}"]).await,
        [200, 200]
    );
    assert_eq!(
        twice(Provider::shopify(), [&one[..1], &one[1..]], ["{}", "{}"]).await,
        [400, 400]
    );
}

#[tokio::test]
async fn a_slack_event_is_known_by_its_id() {
    let body =
        |id: &str| format!(r#"{{"event_id":"{id}","event_time":1,"event":{{"type":"message"}}}}"#);
    let statuses = twice(Provider::slack(), [&[], &[]], [&body("Ev1"), &body("Ev1")]).await;
    assert_eq!(statuses, [200, 208]);
    let statuses = twice(Provider::slack(), [&[], &[]], [&body("Ev1"), &body("Ev2")]).await;
    assert_eq!(statuses, [200, 200]);
}

/// Slack sends it without an `event_id`.
#[tokio::test]
async fn a_rate_limit_of_slack_is_known_by_its_team_and_minute() {
    let body = |minute| {
        format!(r#"{{"type":"app_rate_limited","team_id":"T","minute_rate_limited":{minute}}}"#)
    };
    for (minute, second) in [(1, 208), (2, 200)] {
        let statuses = twice(Provider::slack(), [&[], &[]], [&body(1), &body(minute)]).await;
        assert_eq!(statuses, [200, second]);
    }
    let other = r#"{"type":"event_callback","team_id":"T"}"#;
    assert_eq!(
        twice(Provider::slack(), [&[], &[]], [other; 2]).await,
        [400, 400]
    );
}

#[tokio::test]
async fn an_event_of_shopify_has_headers_without_a_prefix() {
    let one: &[_] = &[("shopify-webhook-id", "w1")];
    let body = r#"{"topic":"Product","action":"update"}"#;
    let statuses = twice(Provider::shopify_events(), [one, one], [body, body]).await;
    assert_eq!(statuses, [200, 208]);
}

#[tokio::test]
async fn slacks_handshake_is_answered_only_if_signed() {
    let verifier = Verifier::new(Provider::slack(), "secret").unwrap();
    let receiver = Receiver::new(MemoryStore::new(), verifier.clone(), "team").unwrap();
    let body = r#"{"token":"t","challenge":"3eZbrw1aB1","type":"url_verification"}"#;
    let handler = async |_: Event, _: Work| Err::<(), _>("must not run".to_owned());
    let genuine = signed(&verifier, &[], body.as_bytes());
    let answer = receiver.receive(&genuine, handler).await;
    assert_eq!(answer.response().body(), "3eZbrw1aB1");
    let forged = request(&[], body.as_bytes());
    let answer = receiver.receive(&forged, handler).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
}
