//! Cache and database read at once.

use std::time::Duration;

use idem_core::{ClaimOutcome, IdempotencyStore};
use idem_hybrid::{Config, Reads};

use super::fixture::{Fault, HOUR, Hybrid, hybrid_with, name, request};

fn together() -> Hybrid {
    let config = Config::new().with_reads(Reads::Together);
    hybrid_with(config.with_budget(Duration::from_secs(5)))
}

#[tokio::test]
async fn a_hit_answers_while_the_database_is_still_at_work() {
    let hybrid = together();
    hybrid.cached("done", "x").await;
    hybrid.database.answer_gate.shut();
    assert_eq!(name(&hybrid, &request("done")).await, "completed");
    assert_eq!(hybrid.store.metrics().hits, 1);
    hybrid.database.answer_gate.open();
}

#[tokio::test(start_paused = true)]
async fn the_database_answers_while_the_cache_is_still_at_work() {
    let hybrid = together();
    hybrid.cache.set(Fault::Hanging);
    let started = tokio::time::Instant::now();
    assert_eq!(name(&hybrid, &request("new")).await, "acquired");
    assert!(started.elapsed().is_zero());
}

#[tokio::test]
async fn a_claim_acquired_after_the_cache_has_answered_is_given_back() {
    let hybrid = together();
    hybrid.cached("done", "x").await;
    hybrid.database.delete_all();
    hybrid.database.answer_gate.shut();
    let answered = hybrid.store.claim(&request("done")).await.unwrap();
    assert!(
        matches!(answered, ClaimOutcome::Completed(_)),
        "the cache was not notified"
    );
    hybrid.database.answer_gate.someone_waits().await;
    let held = hybrid.database.get(request("done").key()).await.unwrap();
    assert!(held.is_some(), "the database granted it");
    hybrid.database.answer_gate.open();
    let free = async {
        while hybrid
            .database
            .get(request("done").key())
            .await
            .unwrap()
            .is_some()
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(HOUR, free).await.unwrap();
}

#[tokio::test]
async fn the_databases_record_is_promoted_under_a_ticket_older_than_another_lookup() {
    let hybrid = together();
    hybrid.complete("done", "x").await;
    let claimed = request("done");
    hybrid.cache.store_gate.shut();
    let outcome = hybrid.store.claim(&claimed).await.unwrap();
    assert_eq!(outcome.name(), "completed");
    hybrid.cache.store_gate.someone_waits().await;
    hybrid.database.delete_all();
    hybrid.store.invalidate(claimed.key()).await.unwrap();
    hybrid.cache.store_gate.open();
    hybrid.store.settled().await;
    assert_eq!(hybrid.store.metrics().refused, 1);
    assert_eq!(name(&hybrid, &claimed).await, "acquired");
}

#[tokio::test]
async fn a_dropped_caller_leaves_the_claim_to_the_same_attempt() {
    let hybrid = together();
    let claimed = request("new");
    hybrid.database.answer_gate.shut();
    let dropped =
        tokio::time::timeout(Duration::from_millis(20), hybrid.store.claim(&claimed)).await;
    assert!(dropped.is_err());
    hybrid.database.answer_gate.open();
    let claim = hybrid
        .store
        .claim(&claimed)
        .await
        .unwrap()
        .acquired()
        .unwrap();
    assert_eq!(claim.attempts(), 1);
    let renewed = hybrid.store.renew(&claim, HOUR).await.unwrap();
    assert_eq!(renewed.token(), claim.token());
}
