//! Deliveries and their answers: in order, out of order, interrupted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::Fragile;
use crate::support::delivery::{Handled, delivery, receiver, verifier, versioned};
use idem_core::{
    BusyPolicy, ErrorKind, ErrorPolicy, Idempotency, IdempotencyStore, MemoryStore, Work,
};
use idem_webhooks::http::StatusCode;
use idem_webhooks::{
    Answer, Event, Provider, Received, Receiver, Rejection, Verifier, Version, policy,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;

const BODY: &str = r#"{"version": 5}"#;

async fn fails(to: &Receiver, id: &str, body: &'static str) -> Answer<String> {
    let handler = async |_: Event, _: Work| Err("the database is away".to_owned());
    to.receive(&delivery(id, body), handler).await
}

/// Delivers again while another delivery's claim holds the event.
async fn until_handled(receiver: &Receiver, handled: &Handled) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        match handled.deliver(receiver, "one", BODY).await.received {
            Received::Handled => return,
            Received::InFlight { .. } => {}
            other => panic!("{other:?}"),
        }
        assert!(tokio::time::Instant::now() < deadline, "the lease ends");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn deliveries_of_one_event_are_handled_once() {
    let (receiver, handled) = (receiver(MemoryStore::new()), Handled::default());
    let first = handled.deliver(&receiver, "one", BODY).await;
    assert!(matches!(first.received, Received::Handled), "{first:?}");
    for _ in 0..3 {
        let again = handled.deliver(&receiver, "one", BODY).await;
        assert!(
            matches!(again.received, Received::Duplicate { .. }),
            "{again:?}"
        );
        assert_eq!(again.status(), StatusCode::OK);
    }
    let other = handled.deliver(&receiver, "two", BODY).await;
    assert!(matches!(other.received, Received::Handled), "{other:?}");
    assert_eq!(handled.times(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_at_once_are_handled_once() {
    let (receiver, handled) = (versioned(MemoryStore::new()), Handled::default());
    let mut deliveries = JoinSet::new();
    for _ in 0..32 {
        let (receiver, handled) = (receiver.clone(), handled.clone());
        deliveries.spawn(async move { handled.deliver(&receiver, "one", BODY).await });
    }
    for answer in deliveries.join_all().await {
        let expected = [StatusCode::OK, StatusCode::CONFLICT];
        assert!(expected.contains(&answer.status()), "{answer:?}");
    }
    assert_eq!(handled.times(), 1);
}

#[tokio::test]
async fn nothing_is_stored_of_a_forged_delivery() {
    let store = MemoryStore::new();
    let (receiver, handled) = (versioned(store.clone()), Handled::default());
    let mut forged = delivery("one", BODY);
    let wrong = format!("sha256={}", "0".repeat(64)).parse().unwrap();
    forged.headers_mut().insert("x-hub-signature-256", wrong);
    let handler = async |_: Event, _: Work| Err::<(), _>("must not run".to_owned());
    let answer = receiver.receive(&forged, handler).await;
    assert!(
        matches!(
            answer.received,
            Received::Rejected(Rejection::WrongSignature)
        ),
        "{answer:?}"
    );
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(
        store.get(&receiver.key(&["one"]).unwrap()).await.unwrap(),
        None
    );
    let source = receiver.source_key(&["thing"]).unwrap();
    let mark = store.watermarks().unwrap().watermark(&source).await;
    assert_eq!(mark.unwrap(), None);
    let genuine = handled.deliver(&receiver, "one", BODY).await;
    assert!(matches!(genuine.received, Received::Handled), "{genuine:?}");
}

#[tokio::test]
async fn an_event_without_a_usable_id_is_refused() {
    let (receiver, handled) = (receiver(MemoryStore::new()), Handled::default());
    for id in ["", "   ", &"x".repeat(256)] {
        let answer = handled.deliver(&receiver, id, BODY).await;
        assert!(
            matches!(answer.received, Received::Rejected(Rejection::NoId)),
            "{answer:?}"
        );
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    }
    let mut none = delivery("one", BODY);
    none.headers_mut().remove("x-github-delivery");
    let handler = async |_: Event, _: Work| Ok::<_, String>(());
    let answer = receiver.receive(&none, handler).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(handled.times(), 0);
}

#[tokio::test]
async fn a_handler_may_seal_the_event_itself() {
    let store = MemoryStore::new();
    let receiver = receiver(store.clone());
    let handler = async |_: Event, work: Work| {
        let claim = work.claim().expect("it has a key");
        let response = Receiver::handled()?;
        let retention = Duration::from_secs(60);
        store.complete(&claim, &response, retention).await
    };
    let answer = receiver.receive(&delivery("one", BODY), handler).await;
    assert!(matches!(answer.received, Received::Handled), "{answer:?}");
}

#[tokio::test]
async fn an_id_with_another_body_is_a_conflict() {
    let (receiver, handled) = (receiver(MemoryStore::new()), Handled::default());
    handled.deliver(&receiver, "one", BODY).await;
    let other = handled.deliver(&receiver, "one", "{}").await;
    assert!(matches!(other.received, Received::Conflict), "{other:?}");
    assert_eq!(other.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(handled.times(), 1);
}

#[tokio::test]
async fn after_an_error_the_next_delivery_is_handled() {
    let (receiver, handled) = (versioned(MemoryStore::new()), Handled::default());
    for _ in 0..2 {
        let answer = fails(&receiver, "one", BODY).await;
        assert!(
            matches!(&answer.received, Received::Error(error) if error.contains("away")),
            "{answer:?}"
        );
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!format!("{:?}", answer.response().body()).contains("away"));
    }
    let answer = handled.deliver(&receiver, "one", BODY).await;
    assert!(
        matches!(answer.received, Received::Handled),
        "the mark is at its own version: {answer:?}"
    );
    assert_eq!(handled.times(), 1);
}

#[tokio::test]
async fn a_recorded_failure_is_the_answer_from_then_on() {
    let store = MemoryStore::new();
    let policy = policy().with_on_error(ErrorPolicy::Record);
    let idempotency = Idempotency::new(store.clone()).with_policy(policy);
    let receiver = receiver(store).with_idempotency(idempotency);
    fails(&receiver, "one", BODY).await;
    let handled = Handled::default();
    let answer = handled.deliver(&receiver, "one", BODY).await;
    assert!(
        matches!(&answer.received, Received::Failed { code } if code == "idem.failed"),
        "{answer:?}"
    );
    assert_eq!((answer.status().as_u16(), handled.times()), (422, 0));
}

#[tokio::test]
async fn an_older_version_is_refused_and_stays_so() {
    let (receiver, handled) = (versioned(MemoryStore::new()), Handled::default());
    handled.deliver(&receiver, "five", BODY).await;
    for _ in 0..2 {
        let late = handled
            .deliver(&receiver, "four", r#"{"version": 4}"#)
            .await;
        assert!(
            matches!(late.received, Received::Stale { current: 5 }),
            "{late:?}"
        );
        assert_eq!(late.status(), StatusCode::OK, "or it would be sent again");
    }
    assert_eq!(handled.times(), 1);
    for (id, body) in [
        ("five too", BODY),
        ("six", r#"{"version": 6}"#),
        ("none", "{}"),
    ] {
        let answer = handled.deliver(&receiver, id, body).await;
        assert!(
            matches!(answer.received, Received::Handled),
            "{id}: {answer:?}"
        );
    }
    assert_eq!(handled.times(), 4);
}

#[tokio::test]
async fn an_older_version_is_refused_while_the_newer_is_being_handled() {
    let (receiver, handled) = (versioned(MemoryStore::new()), Handled::default());
    let (begun, refused) = (Notify::new(), Notify::new());
    let newer = async {
        let handler = async |_: Event, _: Work| {
            begun.notify_one();
            refused.notified().await;
            Ok::<_, String>(())
        };
        receiver.receive(&delivery("five", BODY), handler).await
    };
    let older = async {
        begun.notified().await;
        let answer = handled.deliver(&receiver, "four", r#"{"version": 4}"#);
        let answer = answer.await;
        refused.notify_one();
        answer
    };
    let (newer, older) = tokio::join!(newer, older);
    assert!(matches!(newer.received, Received::Handled), "{newer:?}");
    assert!(
        matches!(older.received, Received::Stale { current: 5 }),
        "{older:?}"
    );
}

#[tokio::test]
async fn an_event_that_was_overtaken_before_it_was_handled_is_refused() {
    let (receiver, handled) = (versioned(MemoryStore::new()), Handled::default());
    let failed = fails(&receiver, "five", BODY).await;
    assert!(matches!(failed.received, Received::Error(_)), "{failed:?}");
    let newer = handled.deliver(&receiver, "six", r#"{"version": 6}"#).await;
    assert!(matches!(newer.received, Received::Handled), "{newer:?}");
    let again = handled.deliver(&receiver, "five", BODY).await;
    assert!(
        matches!(again.received, Received::Stale { current: 6 }),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_mark_that_is_not_raised_at_once_is_tried_again() {
    let store = Fragile::default();
    let (receiver, handled) = (versioned(store.clone()), Handled::default());
    store.marks_fail.store(2, Ordering::SeqCst);
    let answer = handled.deliver(&receiver, "one", BODY).await;
    assert!(matches!(answer.received, Received::Handled), "{answer:?}");
    store.marks_fail.store(usize::MAX, Ordering::SeqCst);
    let answer = handled.deliver(&receiver, "two", BODY).await;
    assert!(matches!(answer.received, Received::Store(_)), "{answer:?}");
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    store.marks_fail.store(0, Ordering::SeqCst);
    let answer = handled.deliver(&receiver, "two", BODY).await;
    assert!(
        matches!(answer.received, Received::Handled),
        "it was released: {answer:?}"
    );
}

#[tokio::test]
async fn without_a_store_nothing_is_handled_and_the_provider_comes_again() {
    let store = Fragile::default();
    let (receiver, handled) = (versioned(store.clone()), Handled::default());
    Fragile::set(&store.is_down, true);
    let answer = handled.deliver(&receiver, "one", BODY).await;
    assert!(matches!(answer.received, Received::Store(_)), "{answer:?}");
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.response().headers()["retry-after"], "5");
    assert_eq!(handled.times(), 0);
    Fragile::set(&store.is_down, false);
    let answer = handled.deliver(&receiver, "one", BODY).await;
    assert!(matches!(answer.received, Received::Handled), "{answer:?}");
}

#[tokio::test]
async fn an_unsealed_event_is_not_acknowledged() {
    let store = Fragile::default();
    let (receiver, handled) = (receiver(store.clone()), Handled::default());
    Fragile::set(&store.seals_nothing, true);
    let answer = handled.deliver(&receiver, "one", BODY).await;
    assert!(
        matches!(answer.received, Received::NotStored(_)),
        "{answer:?}"
    );
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    Fragile::set(&store.seals_nothing, false);
    until_handled(&receiver, &handled).await;
    assert_eq!(
        handled.times(),
        2,
        "unsealed work runs again; see the README"
    );
}

#[tokio::test]
async fn a_receiver_that_is_killed_in_the_middle_is_taken_over() {
    let store = MemoryStore::new();
    // A runtime that ends drops everything at once, as a kill does: nothing is released.
    let killed = versioned(store.clone());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let begun = Arc::new(Notify::new());
            let seen = Arc::clone(&begun);
            tokio::spawn(async move {
                let handler = async |_: Event, _: Work| {
                    begun.notify_one();
                    std::future::pending::<Result<(), String>>().await
                };
                killed.receive(&delivery("one", BODY), handler).await
            });
            seen.notified().await;
        });
    })
    .join()
    .unwrap();
    let (receiver, handled) = (versioned(store), Handled::default());
    let first = handled.deliver(&receiver, "one", BODY).await;
    assert!(
        matches!(first.received, Received::InFlight { .. }),
        "{first:?}"
    );
    assert_eq!(first.response().headers()["retry-after"], "1");
    // Meanwhile an older event is refused, although the newer one has not been handled.
    let older = handled
        .deliver(&receiver, "four", r#"{"version": 4}"#)
        .await;
    assert!(
        matches!(older.received, Received::Stale { current: 5 }),
        "{older:?}"
    );
    until_handled(&receiver, &handled).await;
    assert_eq!(handled.times(), 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_the_event_free() {
    let (receiver, handled) = (versioned(MemoryStore::new()), Handled::default());
    let stuck = async |_: Event, _: Work| std::future::pending::<Result<(), String>>().await;
    let signed = delivery("one", BODY);
    let call = receiver.receive(&signed, stuck);
    assert!(
        tokio::time::timeout(Duration::from_millis(30), call)
            .await
            .is_err()
    );
    until_handled(&receiver, &handled).await;
    assert_eq!(handled.times(), 1);
}

#[tokio::test]
async fn a_store_without_watermarks_is_refused_at_once() {
    let store = Fragile {
        has_no_marks: true,
        ..Fragile::default()
    };
    let receiver = receiver(store).with_versions(|_| Some(Version::new("thing", 1)));
    assert_eq!(receiver.unwrap_err().kind(), ErrorKind::Misconfigured);
}

#[tokio::test]
async fn scopes_do_not_see_each_other() {
    let (store, handled) = (MemoryStore::new(), Handled::default());
    for scope in ["live", "test"] {
        let receiver = Receiver::new(store.clone(), verifier(), scope).unwrap();
        let answer = handled.deliver(&receiver, "one", BODY).await;
        assert!(
            matches!(answer.received, Received::Handled),
            "{scope}: {answer:?}"
        );
    }
    assert!(Receiver::new(store, verifier(), "").is_err());
}

#[tokio::test]
async fn durations_without_end_are_no_panic() {
    let endless = policy()
        .with_retry_timeout(Duration::MAX)
        .with_on_busy(BusyPolicy::wait(Duration::MAX));
    let store = MemoryStore::new();
    let idempotency = Idempotency::new(store.clone()).with_policy(endless);
    let (receiver, handled) = (
        versioned(store).with_idempotency(idempotency),
        Handled::default(),
    );
    let first = handled.deliver(&receiver, "one", BODY).await;
    assert!(matches!(first.received, Received::Handled), "{first:?}");
    let never = Verifier::new(Provider::github(), "secret")
        .unwrap()
        .with_tolerance(Duration::MAX);
    let mut signed = delivery("one", BODY);
    never.sign(&mut signed).unwrap();
    assert!(never.verify(&signed).is_ok());
}
