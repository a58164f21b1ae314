//! Batches: the database gets the items that the cache does not have, and the answers stay in
//! order.

use idem_core::limits::MAX_BATCH;
use idem_core::{BatchStore, ErrorKind, Finish, IdempotencyStore, Response};
use std::time::Duration;

use super::fixture::{Fault, HOUR, hybrid, other_request, request};

#[tokio::test]
async fn a_batch_sends_the_database_the_misses_only() {
    let hybrid = hybrid();
    for id in ["one", "two"] {
        hybrid.cached(id, id).await;
    }
    hybrid.complete("three", "three").await;
    hybrid.hold("held").await;
    let work = hybrid.database.work();
    let requests = [
        request("held"),
        request("two"),
        request("new"),
        other_request("one"),
        request("three"),
        request("one"),
        request("one").with_lease(Duration::ZERO),
    ];
    let answers = hybrid.store.claim_many(&requests).await;
    let names: Vec<_> = answers[..6]
        .iter()
        .map(|answer| answer.as_ref().unwrap().name())
        .collect();
    let wanted = [
        "in_flight",
        "completed",
        "acquired",
        "conflict",
        "completed",
        "completed",
    ];
    assert_eq!(names, wanted);
    assert_eq!(
        answers[6].as_ref().unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(hybrid.database.work(), work + 1);
    hybrid.store.settled().await;
    let all = [request("one"), request("two"), request("three")];
    assert!(
        hybrid
            .store
            .claim_many(&all)
            .await
            .iter()
            .all(Result::is_ok)
    );
    assert_eq!(hybrid.database.work(), work + 1, "all three are cached now");
}

#[tokio::test]
async fn a_batch_that_is_too_long_is_refused_as_by_the_database() {
    let hybrid = hybrid();
    let requests = vec![request("one"); MAX_BATCH as usize + 1];
    let answers = hybrid.store.claim_many(&requests).await;
    assert_eq!(answers.len(), requests.len());
    assert!(
        answers.iter().all(|answer| {
            matches!(answer, Err(error) if error.kind() == ErrorKind::InvalidInput)
        })
    );
    assert_eq!(hybrid.cache.reads(), 0);
}

#[tokio::test]
async fn a_batch_is_answered_though_cache_or_database_fail() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    hybrid.database.break_down(true);
    let answers = hybrid
        .store
        .claim_many(&[request("done"), request("new")])
        .await;
    assert!(answers[0].is_ok() && answers[1].is_err());
    hybrid.database.break_down(false);
    hybrid.cache.set(Fault::Failing);
    let answers = hybrid
        .store
        .claim_many(&[request("done"), request("new")])
        .await;
    assert_eq!(answers[0].as_ref().unwrap().name(), "completed");
    assert_eq!(answers[1].as_ref().unwrap().name(), "acquired");
}

#[tokio::test]
async fn a_batch_makes_the_cache_forget_what_it_releases() {
    let hybrid = hybrid();
    let mut items = Vec::new();
    for id in ["released", "again", "completed"] {
        let outcome = hybrid.store.claim(&request(id)).await.unwrap();
        let claim = outcome.acquired().unwrap();
        let unwanted = b"what should not be";
        hybrid.cache.overwrite(claim.key(), unwanted).await;
        items.push(match id {
            "completed" => Finish::Complete {
                claim,
                response: Response::new(200, "done"),
                retention: HOUR,
            },
            _ => Finish::Release { claim },
        });
    }
    let answers = hybrid.store.finish_many(&items).await;
    assert!(answers.iter().all(Result::is_ok));
    for (id, is_kept) in [("released", false), ("again", false), ("completed", true)] {
        let kept = hybrid.cache.kept(request(id).key()).await;
        assert_eq!(kept.is_some(), is_kept, "{id}");
    }
}
