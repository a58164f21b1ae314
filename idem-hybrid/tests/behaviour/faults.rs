//! A cache that misbehaves, in each way: no answer changes and no error shows.

use std::time::Duration;

use idem_core::{ErrorKind, IdempotencyStore, Record};
use idem_hybrid::Config;

use super::fixture::{Fault, Hybrid, hybrid, hybrid_with, name, other_request, request};

/// One key in each state, and the names of the database's answers.
const ANSWERS: [(&str, &str); 5] = [
    ("other", "completed"),
    ("done", "completed"),
    ("held", "in_flight"),
    ("failed", "failed"),
    ("new", "acquired"),
];

async fn answers_as_the_database(hybrid: &Hybrid) {
    for (id, answer) in ANSWERS {
        assert_eq!(name(hybrid, &request(id)).await, answer, "{id}");
        if id != "new" {
            assert_eq!(name(hybrid, &other_request(id)).await, "conflict", "{id}");
        }
        let got = hybrid.store.get(request(id).key()).await.unwrap().unwrap();
        let stored = hybrid
            .database
            .get(request(id).key())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(got.info().token, stored.info().token, "{id}");
        assert_eq!(got.response(), stored.response(), "{id}");
    }
    hybrid.store.settled().await;
}

async fn prepared(config: Config) -> Hybrid {
    let hybrid = hybrid_with(config);
    hybrid.complete("done", "the response").await;
    hybrid.complete("other", "another response").await;
    hybrid.hold("held").await;
    hybrid.fail("failed").await;
    hybrid
}

#[tokio::test]
async fn every_fault_leaves_the_answers_as_they_are() {
    for fault in [
        Fault::None,
        Fault::Failing,
        Fault::Hanging,
        Fault::Slow,
        Fault::Garbage,
        Fault::Mixed,
        Fault::Forgetting,
    ] {
        let config = Config::new().with_budget(Duration::from_millis(5));
        let hybrid = prepared(config).await;
        // Entries that the fault can strike.
        for id in ["done", "other", "done", "other"] {
            name(&hybrid, &request(id)).await;
            hybrid.store.settled().await;
        }
        hybrid.cache.set(fault);
        for _ in 0..4 {
            answers_as_the_database(&hybrid).await;
            hybrid.release("new").await;
        }
        let metrics = hybrid.store.metrics();
        match fault {
            Fault::None => assert!(metrics.hits >= 10 && metrics.errors == 0, "{metrics:?}"),
            Fault::Failing | Fault::Hanging | Fault::Slow => {
                assert!(metrics.errors >= 5 && metrics.skipped > 0, "{metrics:?}");
            }
            Fault::Garbage | Fault::Mixed => {
                assert!(metrics.errors > 0 && metrics.skipped == 0, "{metrics:?}");
            }
            Fault::Forgetting => assert!(metrics.refused > 0, "{metrics:?}"),
        }
    }
}

#[tokio::test]
async fn garbage_is_replaced_by_the_databases_record() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    hybrid
        .cache
        .overwrite(request("done").key(), b"garbage")
        .await;
    assert_eq!(name(&hybrid, &request("done")).await, "completed");
    hybrid.store.settled().await;
    assert_eq!(hybrid.store.metrics().errors, 1);
    let hits = hybrid.store.metrics().hits;
    assert_eq!(name(&hybrid, &request("done")).await, "completed");
    assert_eq!(hybrid.store.metrics().hits, hits + 1);
}

#[tokio::test]
async fn garbage_for_a_key_that_is_not_completed_is_removed() {
    let hybrid = hybrid();
    hybrid.hold("held").await;
    hybrid
        .cache
        .overwrite(request("held").key(), b"garbage")
        .await;
    assert_eq!(name(&hybrid, &request("held")).await, "in_flight");
    hybrid.store.settled().await;
    assert_eq!(name(&hybrid, &request("held")).await, "in_flight");
    let metrics = hybrid.store.metrics();
    assert_eq!((metrics.errors, metrics.misses), (1, 1), "{metrics:?}");
}

#[tokio::test]
async fn an_entry_of_another_key_is_an_error_and_answers_nothing() {
    let hybrid = hybrid();
    hybrid.cached("one", "response of one").await;
    let entry = hybrid.cache.kept(request("one").key()).await.unwrap();
    hybrid.cache.overwrite(request("two").key(), &entry).await;
    assert_eq!(name(&hybrid, &request("two")).await, "acquired");
    assert_eq!(hybrid.store.metrics().errors, 1);
}

#[tokio::test]
async fn errors_of_the_database_come_through_as_they_are() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    hybrid.database.break_down(true);
    let error = hybrid.store.claim(&request("new")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.backend()),
        (ErrorKind::Unavailable, "counting")
    );
    assert!(hybrid.store.get(request("new").key()).await.is_err());
    assert_eq!(
        name(&hybrid, &request("done")).await,
        "completed",
        "a replay needs no database"
    );
}

#[tokio::test]
async fn failed_and_in_flight_records_are_never_cached() {
    let hybrid = hybrid();
    hybrid.hold("held").await;
    hybrid.fail("failed").await;
    for _ in 0..3 {
        assert_eq!(name(&hybrid, &request("held")).await, "in_flight");
        assert_eq!(name(&hybrid, &request("failed")).await, "failed");
        let got = hybrid.store.get(request("failed").key()).await.unwrap();
        assert!(matches!(got, Some(Record::Failed(_))));
        hybrid.store.settled().await;
    }
    let metrics = hybrid.store.metrics();
    assert_eq!((metrics.hits, metrics.promoted), (0, 0));
    assert_eq!(hybrid.cache.stores(), 0, "nothing was sent to the cache");
}

#[tokio::test]
async fn entries_that_are_too_large_are_skipped() {
    let hybrid = hybrid_with(Config::new().with_max_entry_bytes(1000));
    hybrid.complete("small", "x").await;
    hybrid.complete("large", &"x".repeat(1000)).await;
    for _ in 0..2 {
        for id in ["small", "large"] {
            assert_eq!(name(&hybrid, &request(id)).await, "completed");
            hybrid.store.settled().await;
        }
    }
    let metrics = hybrid.store.metrics();
    assert_eq!((metrics.promoted, metrics.skipped, metrics.hits), (1, 2, 1));
}
