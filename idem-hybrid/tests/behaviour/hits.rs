//! The cost of a hit and of a miss, and their answers.

use std::time::Duration;

use idem_core::{ClaimOutcome, IdempotencyStore, Metadata, Record, Response};

use super::fixture::{HOUR, hybrid, name, other_request, request};

#[tokio::test]
async fn a_hit_costs_one_read_of_the_cache_and_no_work_in_the_database() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    let (reads, work) = (hybrid.cache.reads(), hybrid.database.work());
    assert_eq!(name(&hybrid, &request("done")).await, "completed");
    assert_eq!(name(&hybrid, &other_request("done")).await, "conflict");
    assert!(
        hybrid
            .store
            .get(request("done").key())
            .await
            .unwrap()
            .is_some()
    );
    hybrid.store.settled().await;
    assert_eq!(hybrid.cache.reads(), reads + 3);
    assert_eq!(hybrid.database.work(), work);
    assert_eq!(hybrid.cache.stores(), 1, "a hit stores nothing");
}

#[tokio::test]
async fn a_miss_costs_one_read_of_the_cache_and_the_databases_claim() {
    let hybrid = hybrid();
    assert_eq!(name(&hybrid, &request("new")).await, "acquired");
    assert_eq!((hybrid.cache.reads(), hybrid.database.work()), (1, 1));
    hybrid.complete("done", "x").await;
    let (reads, work) = (hybrid.cache.reads(), hybrid.database.work());
    assert_eq!(name(&hybrid, &request("done")).await, "completed");
    hybrid.store.settled().await;
    assert_eq!(hybrid.cache.reads(), reads + 1);
    assert_eq!(
        hybrid.database.work(),
        work + 1,
        "promoting reads nothing more"
    );
}

#[tokio::test]
async fn a_replay_from_the_cache_is_the_one_from_the_database() {
    let hybrid = hybrid();
    let metadata = Metadata::new().with("host", "worker 1");
    let first = request("done").with_metadata(metadata);
    let claim = hybrid
        .store
        .claim(&first)
        .await
        .unwrap()
        .acquired()
        .unwrap();
    let response = Response::new(418, vec![0, 159, 146, 150])
        .with_header("set-cookie", "a")
        .with_header("set-cookie", vec![255]);
    hybrid
        .store
        .complete(&claim, &response, HOUR)
        .await
        .unwrap();
    let returned = hybrid.store.claim(&request("done")).await.unwrap();
    hybrid.store.settled().await;
    let replayed = hybrid.store.claim(&request("done")).await.unwrap();
    assert_eq!(hybrid.store.metrics().hits, 1);
    let (ClaimOutcome::Completed(mut returned), ClaimOutcome::Completed(replayed)) =
        (returned, replayed)
    else {
        panic!("both are replays");
    };
    assert!(
        replayed.info.observed_at >= returned.info.observed_at,
        "time went on"
    );
    returned.info.observed_at = replayed.info.observed_at;
    assert_eq!(replayed, returned);
}

#[tokio::test]
async fn a_conflict_from_the_cache_carries_the_stored_fingerprint() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    let outcome = hybrid.store.claim(&other_request("done")).await.unwrap();
    let ClaimOutcome::Conflict(conflict) = outcome else {
        panic!("no conflict");
    };
    assert_eq!(conflict.info.fingerprint, *request("done").fingerprint());
    assert_eq!(hybrid.store.metrics().hits, 1);
}

#[tokio::test]
async fn bad_input_is_refused_in_the_databases_words_whatever_is_cached() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    for bad in [
        request("done").with_lease(Duration::ZERO),
        request("done").with_retention(Duration::MAX),
        request("done").with_metadata(Metadata::new().with("a", "x".repeat(1 << 20))),
    ] {
        let error = hybrid.store.claim(&bad).await.unwrap_err();
        let of_database = hybrid.database.claim(&bad).await.unwrap_err();
        assert_eq!(error.to_string(), of_database.to_string());
    }
}

#[tokio::test]
async fn a_lookup_promotes_the_record_it_finds() {
    let hybrid = hybrid();
    hybrid.complete("done", "x").await;
    for _ in 0..2 {
        let record = hybrid.store.get(request("done").key()).await.unwrap();
        assert!(matches!(record, Some(Record::Completed(_))));
        hybrid.store.settled().await;
    }
    let metrics = hybrid.store.metrics();
    assert_eq!((metrics.misses, metrics.promoted, metrics.hits), (1, 1, 1));
}

#[tokio::test]
async fn a_cached_record_has_less_time_left_as_time_passes() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    let left = async || {
        let record = hybrid.store.get(request("done").key()).await.unwrap();
        record.unwrap().info().remaining()
    };
    let first = left().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let second = left().await;
    assert!(
        second + Duration::from_millis(20) <= first,
        "{first:?}, {second:?}"
    );
    let of_database = hybrid
        .database
        .get(request("done").key())
        .await
        .unwrap()
        .unwrap();
    assert!(second <= of_database.info().remaining() + Duration::from_millis(50));
    assert_eq!(hybrid.store.metrics().hits, 2);
}
