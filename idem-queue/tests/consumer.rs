//! Deliveries and their dispositions.

mod support;

use std::sync::Arc;
use std::time::Duration;

use idem_core::{
    BusyPolicy, ClaimRequest, ErrorKind, Failure, Fingerprint, Idempotency, IdempotencyStore, Key,
    MemoryStore, Policy, Record, Response, Work,
};
use idem_queue::{Backoff, Consumer, Disposition, Handled, Message, Reason, WorkError};
use idem_sqlite::{Config, SqliteStore, Transactions};
use support::Fragile;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

fn consumer(store: impl IdempotencyStore) -> Consumer {
    let policy = Policy::default()
        .with_lease(Duration::from_millis(300))
        .with_retry_timeout(Duration::from_millis(60));
    Consumer::new(Idempotency::new(store).with_policy(policy)).with_max_deliveries(3)
}

fn key() -> Key {
    Key::new("shop", "orders.ship", "order 7").unwrap()
}

fn message(deliveries: u64) -> Message {
    Message::new(key(), "payload").with_deliveries(deliveries)
}

async fn works(consumer: &Consumer, message: &Message) -> Handled<String> {
    let work = async |_: Work| Ok("parcel".to_owned());
    consumer.handle(message, work).await
}

async fn fails(consumer: &Consumer, deliveries: u64, error: WorkError) -> Handled<String> {
    let work = async |_: Work| Err(error);
    consumer.handle(&message(deliveries), work).await
}

fn away() -> WorkError {
    WorkError::temporary(std::io::Error::other("the carrier is away"))
}

fn is_requeued<T: std::fmt::Debug>(handled: &Handled<T>) -> bool {
    matches!(handled.disposition(), Disposition::Requeue { .. })
}

async fn failure(store: &MemoryStore) -> Failure {
    match store.get(&key()).await.unwrap() {
        Some(Record::Failed(failed)) => failed.failure,
        other => panic!("not failed: {other:?}"),
    }
}

#[tokio::test]
async fn a_duplicate_is_acknowledged_and_runs_nothing() {
    let consumer = consumer(MemoryStore::new());
    let first = works(&consumer, &message(1)).await;
    assert!(!first.is_duplicate());
    assert_eq!(first.disposition(), Disposition::Ack);
    let work = async |_: Work| -> Result<String, WorkError> { panic!("it was done") };
    let again = consumer.handle(&message(2), work).await;
    assert!(again.is_duplicate());
    assert_eq!(again.disposition(), Disposition::Ack);
    assert_eq!(again.into_result().unwrap().into_inner(), "parcel");
}

#[tokio::test]
async fn it_is_sealed_before_it_is_acknowledged() {
    let store = MemoryStore::new();
    let handled = works(&consumer(store.clone()), &message(1)).await;
    assert_eq!(handled.disposition(), Disposition::Ack);
    assert!(matches!(
        store.get(&key()).await,
        Ok(Some(Record::Completed(_)))
    ));

    let store = Fragile::default();
    Fragile::set(&store.seals_nothing, true);
    let handled = works(&consumer(store), &message(1)).await;
    assert!(is_requeued(&handled), "{handled:?}");
    assert!(
        matches!(handled.reason(), Some(Reason::NotStored(_))),
        "{handled:?}"
    );
}

#[tokio::test]
async fn a_temporary_error_releases_and_requeues() {
    let store = MemoryStore::new();
    let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
    let consumer = consumer(store.clone()).with_backoff(backoff);
    for (delivery, full) in [(1, 100), (2, 200)] {
        let handled = fails(&consumer, delivery, away()).await;
        assert!(
            matches!(handled.reason(), Some(Reason::Temporary(_))),
            "{handled:?}"
        );
        let Disposition::Requeue { delay } = handled.disposition() else {
            panic!("{handled:?}");
        };
        let full = Duration::from_millis(full);
        assert!(delay <= full && delay >= full / 2, "{delay:?}");
        assert_eq!(store.get(&key()).await.unwrap(), None, "released");
    }
    let handled = works(&consumer, &message(3)).await;
    assert_eq!(handled.disposition(), Disposition::Ack);
}

#[tokio::test]
async fn a_permanent_error_is_recorded_and_rejected() {
    let store = MemoryStore::new();
    let consumer = consumer(store.clone());
    let error = WorkError::permanent(std::io::Error::other("no such order"));
    let handled = fails(&consumer, 1, error).await;
    assert_eq!(handled.disposition(), Disposition::Reject);
    let recorded = failure(&store).await;
    assert_eq!(recorded.code(), Failure::FAILED);
    assert_eq!(recorded.message(), "no such order");
    // Published once more, it is not tried again.
    let again = works(&consumer, &message(1)).await;
    assert_eq!(again.disposition(), Disposition::Reject);
    assert!(matches!(again.reason(), Some(Reason::Failed { code }) if code == Failure::FAILED));
}

#[tokio::test]
async fn a_temporary_error_at_the_last_try_is_recorded() {
    let store = MemoryStore::new();
    let consumer = consumer(store.clone());
    for delivery in [1, 2] {
        assert!(is_requeued(&fails(&consumer, delivery, away()).await));
        sleep(Duration::from_millis(5)).await;
    }
    let handled = fails(&consumer, 3, away()).await;
    assert_eq!(handled.disposition(), Disposition::Reject);
    assert_eq!(failure(&store).await.code(), Consumer::POISON);
}

#[tokio::test]
async fn a_message_tried_too_often_is_not_tried_again() {
    let store = MemoryStore::new();
    let consumer = consumer(store.clone());
    let mut tries = 0;
    for delivery in 1.. {
        sleep(Duration::from_millis(5)).await;
        let consumer = consumer.clone();
        let tried = tokio::spawn(async move {
            let work = async |_: Work| -> Result<String, WorkError> { panic!("it kills them") };
            consumer.handle(&message(delivery), work).await
        });
        match tried.await {
            Err(_) => tries += 1,
            Ok(handled) => {
                assert_eq!(handled.disposition(), Disposition::Reject);
                break;
            }
        }
    }
    // The panic of the first delivery leaves no trace.
    assert_eq!(tries, 4);
    assert_eq!(failure(&store).await.code(), Consumer::POISON);
}

#[tokio::test]
async fn a_delivery_that_met_a_live_claim_or_no_store_is_no_try() {
    let store = Fragile::default();
    let consumer = consumer(store.clone());
    let claim = ClaimRequest::new(key(), message(1).fingerprint());
    let claim = claim.with_lease(Duration::from_millis(300));
    let _held = store.claim(&claim).await.unwrap();
    Fragile::set(&store.is_down, true);
    for delivery in 2..5 {
        assert!(is_requeued(&works(&consumer, &message(delivery)).await));
    }
    Fragile::set(&store.is_down, false);
    let deadline = Instant::now() + Duration::from_secs(20);
    for delivery in 5.. {
        let handled = works(&consumer, &message(delivery)).await;
        match handled.reason() {
            Some(Reason::InFlight) => assert!(Instant::now() < deadline, "the lease ends"),
            reason => {
                assert!(reason.is_none(), "{reason:?} at delivery {delivery}");
                break;
            }
        }
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_done_message_is_acknowledged_however_often_it_comes() {
    let consumer = consumer(MemoryStore::new());
    works(&consumer, &message(1)).await.into_result().unwrap();
    let late = works(&consumer, &message(99)).await;
    assert_eq!(late.disposition(), Disposition::Ack);
}

#[tokio::test]
async fn a_failure_that_cannot_be_recorded_is_not_rejected() {
    let store = Fragile::default();
    Fragile::set(&store.fails_nothing, true);
    let consumer = consumer(store.clone());
    let error = WorkError::permanent(std::io::Error::other("no such order"));
    let handled = fails(&consumer, 1, error).await;
    assert!(is_requeued(&handled), "{handled:?}");
    assert!(
        matches!(handled.reason(), Some(Reason::NotStored(_))),
        "{handled:?}"
    );
}

#[tokio::test]
async fn an_error_of_any_length_is_recorded() {
    let store = MemoryStore::new();
    let error = WorkError::permanent("é".repeat(1 << 20));
    let handled = fails(&consumer(store.clone()), 1, error).await;
    assert_eq!(handled.disposition(), Disposition::Reject);
    assert!(failure(&store).await.message().len() <= 4 << 10);
}

#[tokio::test]
async fn without_a_store_nothing_runs_and_it_comes_again() {
    let store = Fragile::default();
    let consumer = consumer(store.clone());
    Fragile::set(&store.is_down, true);
    let work = async |_: Work| -> Result<String, WorkError> { panic!("there is no claim") };
    let handled = consumer.handle(&message(1), work).await;
    assert!(is_requeued(&handled), "{handled:?}");
    assert!(
        matches!(handled.reason(), Some(Reason::Store(_))),
        "{handled:?}"
    );
    Fragile::set(&store.is_down, false);
    let handled = works(&consumer, &message(2)).await;
    assert_eq!(handled.disposition(), Disposition::Ack);
}

#[tokio::test]
async fn a_key_with_another_payload_is_rejected() {
    let consumer = consumer(MemoryStore::new());
    works(&consumer, &message(1)).await.into_result().unwrap();
    let other = works(&consumer, &Message::new(key(), "other")).await;
    assert_eq!(other.disposition(), Disposition::Reject);
    assert!(matches!(other.reason(), Some(Reason::Conflict)));
    let json = |text| message(1).with_fingerprint(Fingerprint::json(text).unwrap());
    assert_eq!(json("{}"), json("{ }"));
}

#[tokio::test]
async fn a_result_that_cannot_be_read_is_done_all_the_same() {
    let store = MemoryStore::new();
    let consumer = consumer(store.clone());
    let work = async |work: Work| {
        let response = Response::new(200, "no JSON");
        let claim = work.claim().expect("it has a key");
        store
            .complete(&claim, &response, Duration::from_secs(60))
            .await?;
        Err::<String, _>(away())
    };
    let late = consumer.handle(&message(1), work).await;
    assert!(is_requeued(&late), "{late:?}");
    let handled = works(&consumer, &message(1)).await;
    assert_eq!(handled.disposition(), Disposition::Ack);
    assert!(handled.is_duplicate() && handled.into_result().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_at_once_do_it_once() {
    let store = MemoryStore::new();
    let runs = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut consumers = JoinSet::new();
    for _ in 0..16 {
        let (consumer, runs) = (consumer(store.clone()), Arc::clone(&runs));
        consumers.spawn(async move {
            loop {
                let work = async |_: Work| {
                    sleep(Duration::from_millis(5)).await;
                    runs.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    Ok::<_, WorkError>(())
                };
                match consumer.handle(&message(1), work).await.disposition() {
                    Disposition::Ack => return,
                    Disposition::Requeue { delay } => {
                        sleep(delay.min(Duration::from_millis(9))).await;
                    }
                    Disposition::Reject => panic!("rejected"),
                }
            }
        });
    }
    let all = tokio::time::timeout(Duration::from_secs(20), consumers.join_all());
    all.await.expect("every consumer acknowledges");
    assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_consumer_that_is_killed_in_the_middle_is_taken_over() {
    let store = MemoryStore::new();
    let killed = consumer(store.clone());
    // A runtime that ends drops everything at once, as a kill does: nothing is released.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let begun = Arc::new(Notify::new());
            let seen = Arc::clone(&begun);
            tokio::spawn(async move {
                let work = async |_: Work| {
                    begun.notify_one();
                    std::future::pending::<Result<String, WorkError>>().await
                };
                killed.handle(&message(1), work).await
            });
            seen.notified().await;
        });
    })
    .join()
    .unwrap();
    let next = consumer(store);
    let first = works(&next, &message(2)).await;
    assert!(
        matches!(first.reason(), Some(Reason::InFlight)),
        "{first:?}"
    );
    let Disposition::Requeue { delay } = first.disposition() else {
        panic!("{first:?}");
    };
    assert!(delay <= Duration::from_millis(300), "its lease: {delay:?}");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let work = async |work: Work| Ok(work.is_takeover());
        let handled = next.handle(&message(3), work).await;
        if handled.disposition() == Disposition::Ack {
            assert!(handled.into_result().unwrap().into_inner(), "a takeover");
            return;
        }
        assert!(Instant::now() < deadline, "the lease ends");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_consumer_that_is_dropped_in_the_middle_leaves_the_message_free() {
    let consumer = consumer(MemoryStore::new());
    let stuck = async |_: Work| std::future::pending::<Result<String, WorkError>>().await;
    let message = message(1);
    let call = consumer.handle(&message, stuck);
    assert!(
        tokio::time::timeout(Duration::from_millis(20), call)
            .await
            .is_err()
    );
    let deadline = Instant::now() + Duration::from_secs(20);
    while works(&consumer, &message).await.disposition() != Disposition::Ack {
        assert!(Instant::now() < deadline, "it is released");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_consumer_that_was_paused_and_overtaken_does_not_acknowledge() {
    let store = Fragile::default();
    let consumer = consumer(store.clone());
    let work = async |work: Work| {
        // Its lease cannot be renewed, and another consumer does the work meanwhile.
        Fragile::set(&store.renews_nothing, true);
        work.lost().await;
        let other = self::consumer(store.store.clone());
        let deadline = Instant::now() + Duration::from_secs(20);
        while works(&other, &message(2)).await.disposition() != Disposition::Ack {
            assert!(Instant::now() < deadline, "the lease ends");
            sleep(Duration::from_millis(10)).await;
        }
        Ok("a second parcel".to_owned())
    };
    let late = consumer.handle(&message(1), work).await;
    assert!(is_requeued(&late), "{late:?}");
    assert!(matches!(late.reason(), Some(Reason::NotStored(error)) if error.is_claim_lost()));
    let again = works(&consumer, &message(3)).await;
    assert_eq!(again.into_result().unwrap().into_inner(), "parcel");
}

#[tokio::test]
async fn a_message_whose_key_is_held_or_unreadable_comes_again_and_says_which() {
    for (kind, text) in [
        (ErrorKind::Contention, "the store did not decide"),
        (
            ErrorKind::Corrupt,
            "what became of an earlier delivery of the message cannot be read",
        ),
    ] {
        let store = Fragile::default();
        let consumer = consumer(store.clone());
        *store.refused.lock().unwrap() = Some(kind);
        let handled = works(&consumer, &message(1)).await;
        assert!(is_requeued(&handled), "{handled:?}");
        assert_eq!(handled.reason().unwrap().to_string(), text);
        *store.refused.lock().unwrap() = None;
        let handled = works(&consumer, &message(2)).await;
        assert_eq!(handled.disposition(), Disposition::Ack);
    }
}

#[tokio::test]
async fn durations_without_end_are_no_panic() {
    let policy = Policy::default()
        .with_retry_timeout(Duration::MAX)
        .with_on_busy(BusyPolicy::wait(Duration::MAX));
    let store = MemoryStore::new();
    let consumer = Consumer::new(Idempotency::new(store.clone()).with_policy(policy))
        .with_backoff(Backoff::new(Duration::MAX, Duration::MAX));
    let handled = fails(&consumer, 1, away()).await;
    let Disposition::Requeue { delay } = handled.disposition() else {
        panic!("{handled:?}");
    };
    assert!(delay > Duration::from_secs(1), "{delay:?}");
    let handled = fails(&consumer, 2, WorkError::permanent("no such order")).await;
    assert_eq!(handled.disposition(), Disposition::Reject);
    assert_eq!(failure(&store).await.message(), "no such order");
}

#[tokio::test]
async fn a_delivery_shows_neither_value_nor_error() {
    let consumer = consumer(MemoryStore::new());
    let secret = || WorkError::temporary("SECRET-4242");
    let failed = fails(&consumer, 1, secret()).await;
    let done = consumer
        .handle(&message(2), async |_: Work| Ok("SECRET-4242".to_owned()))
        .await;
    let number = async |_: Work| Ok(7_u8);
    let unreadable = consumer.handle(&message(3), number).await;
    let shown = format!("{failed:?} {done:?} {unreadable:?} {:?}", secret());
    assert!(!shown.contains("SECRET"), "a value or an error is shown");
    let texts = [
        failed.into_result().unwrap_err().to_string(),
        unreadable.into_result().unwrap_err().to_string(),
    ];
    assert!(!texts.concat().contains("SECRET"), "an error is shown");
}

#[tokio::test]
async fn a_message_in_a_transaction_leaves_its_rows_and_its_record_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/shop.db", folder.path().display());
    let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
    store.migrate().await.unwrap();
    let table = sqlx::query("CREATE TABLE parcels (id INTEGER PRIMARY KEY, name TEXT)");
    table.execute(store.pool()).await.unwrap();
    let transactions = Transactions::new(&store);
    let consumer = Consumer::new(Idempotency::new(store.clone())).with_max_deliveries(2);
    let permanent = || WorkError::permanent("no such order");
    let temporary = || WorkError::temporary("the carrier is away");
    let mut rows = 0;
    for (id, delivery, ends, disposition) in [
        ("a", 1, Ok(()), "Ack"),
        ("a", 2, Ok(()), "Ack"),
        ("b", 1, Err(permanent()), "Reject"),
        ("b", 2, Ok(()), "Reject"),
        ("c", 1, Err(temporary()), "Requeue"),
        ("c", 2, Ok(()), "Ack"),
        ("d", 1, Err(temporary()), "Requeue"),
        ("d", 2, Err(temporary()), "Reject"),
        ("d", 3, Ok(()), "Reject"),
    ] {
        rows += usize::from(disposition == "Ack" && (id, delivery) != ("a", 2));
        let message = Message::new(Key::new("shop", "orders.ship", id).unwrap(), id);
        let message = message.with_deliveries(delivery);
        let mut ends = Some(ends);
        let handled = consumer.handle_in(&transactions, &message, |mut tx, _| {
            let ends = ends.take().expect("it is called once");
            async move {
                let insert = sqlx::query("INSERT INTO parcels (name) VALUES ('parcel')");
                insert
                    .execute(&mut **tx)
                    .await
                    .map_err(WorkError::temporary)?;
                ends
            }
        });
        let handled = handled.await;
        let shown = format!("{:?}", handled.disposition());
        assert!(
            shown.starts_with(disposition),
            "{id} {delivery}: {handled:?}"
        );
        let count = sqlx::query_scalar("SELECT count(*) FROM parcels");
        let count: i64 = count.fetch_one(store.pool()).await.unwrap();
        assert_eq!(usize::try_from(count).unwrap(), rows, "{id} {delivery}");
    }
}
