//! After a forced step, no tier replays the old record.

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::{Forced, ForcedAction, ForcedStep, RecordFilter, SummaryState};
use idem_core::{
    Effect, ErrorKind, Failure, IdempotencyStore, IdempotencyStoreExt, Key, MemoryStore,
    RecordAdmin, Response,
};
use idem_hybrid::{Cache, HybridStore, LocalCache, Tiered};

use super::fixture::{Fault, HOUR, hybrid, name, request};

/// The processes of a service: each has a near tier of its own, and all share the far one.
type Process = HybridStore<Tiered<LocalCache, Arc<LocalCache>>, MemoryStore>;

fn process(far: &Arc<LocalCache>, database: &MemoryStore, near_lifetime: Duration) -> Process {
    let near = LocalCache::new(1 << 20).with_max_lifetime(near_lifetime);
    let tiers = Tiered::new(near, Arc::clone(far)).with_far_budget(HOUR);
    HybridStore::new(tiers, database.clone())
}

async fn step(store: &dyn RecordAdmin, key: &Key, action: ForcedAction) -> ForcedStep {
    let record = store.summary(key).await.unwrap().expect("a record");
    ForcedStep::new(key.clone(), record.token, action, "ada", "wrong").unwrap()
}

async fn delete(store: &dyn RecordAdmin, key: &Key) -> ForcedStep {
    step(store, key, ForcedAction::Delete).await
}

/// Has the completed record in both tiers of this process.
async fn cached(process: &Process) {
    for _ in 0..2 {
        let outcome = process.claim(&request("done")).await.unwrap();
        assert_eq!(outcome.name(), "completed");
        process.settled().await;
    }
    let key = request("done").key().clone();
    let tiers = process.cache();
    assert!(tiers.near().read(&key).await.unwrap().hit.is_some());
    assert!(tiers.far().read(&key).await.unwrap().hit.is_some());
}

#[tokio::test]
async fn neither_tier_replays_a_record_that_was_forced_to_go() {
    let (far, database) = (Arc::new(LocalCache::new(1 << 20)), MemoryStore::new());
    let near_lifetime = Duration::from_millis(500);
    let [one, other] = [HOUR, near_lifetime].map(|life| process(&far, &database, life));
    let claim = one.claim(&request("done")).await.unwrap();
    let claim = claim.acquired().unwrap();
    let wrong = Response::new(200, "wrong");
    one.complete(&claim, &wrong, HOUR).await.unwrap();
    cached(&one).await;
    cached(&other).await;
    let key = claim.key();
    let delete = delete(&one, key).await;
    let forced = one.force(&delete).await.unwrap();
    assert!(matches!(forced, Forced::Done { .. }), "{forced:?}");
    let tiers = one.cache();
    assert!(tiers.near().read(key).await.unwrap().hit.is_none());
    assert!(tiers.far().read(key).await.unwrap().hit.is_none());
    assert_eq!(one.get(key).await.unwrap(), None);
    let again = one.claim(&request("done")).await.unwrap();
    let again = again.acquired().expect("a free key");
    assert!(again.token() > claim.token());
    let late = one.complete(&claim, &wrong, HOUR).await.unwrap_err();
    assert!(late.is_claim_lost(), "{late}");
    // The other process has not heard of it, and does not replay it for longer than it says.
    tokio::time::sleep(near_lifetime).await;
    let elsewhere = other.claim(&request("done")).await.unwrap();
    assert_eq!(elsewhere.name(), "in_flight");
    let right = Response::new(200, "right");
    one.complete(&again, &right, HOUR).await.unwrap();
    for process in [&one, &other] {
        let record = process.get(key).await.unwrap().expect("completed");
        assert_eq!(record.response(), Some(&right));
    }
    assert_eq!(one.history(key).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_late_promotion_does_not_undo_a_forced_deletion() {
    for is_stored in [false, true] {
        let hybrid = hybrid();
        hybrid.complete("done", "x").await;
        let key = request("done").key().clone();
        let delete = delete(&hybrid.store, &key).await;
        let gate = match is_stored {
            false => &hybrid.database.answer_gate,
            true => &hybrid.cache.store_gate,
        };
        gate.shut();
        let (store, done) = (hybrid.store.clone(), request("done"));
        let duplicate = tokio::spawn(async move { store.claim(&done).await });
        gate.someone_waits().await;
        hybrid.store.force(&delete).await.unwrap();
        gate.open();
        let outcome = duplicate.await.unwrap().unwrap();
        assert_eq!(outcome.name(), "completed", "it was, when it was claimed");
        hybrid.store.settled().await;
        assert!(hybrid.cache.kept(&key).await.is_none());
        assert_eq!(name(&hybrid, &request("done")).await, "acquired");
    }
}

#[tokio::test]
async fn a_deletion_that_the_cache_did_not_hear_of_is_an_error_until_it_is_repeated() {
    for fault in [Fault::Failing, Fault::Hanging] {
        let hybrid = hybrid();
        hybrid.cached("done", "x").await;
        let key = request("done").key().clone();
        let delete = delete(&hybrid.store, &key).await;
        hybrid.cache.set(fault);
        let error = hybrid.store.force(&delete).await.unwrap_err();
        assert_eq!((error.backend(), error.operation()), ("hybrid", "force"));
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.effect(), Effect::Unknown);
        assert!(error.is_retryable());
        hybrid.cache.set(Fault::None);
        assert!(hybrid.cache.kept(&key).await.is_some(), "it is still there");
        let forced = hybrid.store.force(&delete).await.unwrap();
        assert_eq!(forced, Forced::Refused { current: None }, "{fault:?}");
        assert!(hybrid.cache.kept(&key).await.is_none());
        assert_eq!(name(&hybrid, &request("done")).await, "acquired");
        assert_eq!(hybrid.store.history(&key).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_deletion_is_sent_to_the_cache_though_the_breaker_is_open() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    let key = request("done").key().clone();
    let delete = delete(&hybrid.store, &key).await;
    hybrid.cache.set(Fault::Failing);
    for _ in 0..10 {
        name(&hybrid, &request("other")).await;
    }
    hybrid.cache.set(Fault::None);
    let reads = hybrid.cache.reads();
    name(&hybrid, &request("other")).await;
    assert_eq!(hybrid.cache.reads(), reads, "the breaker is open");
    hybrid.store.force(&delete).await.unwrap();
    assert!(hybrid.cache.kept(&key).await.is_none());
}

#[tokio::test]
async fn no_fault_of_the_cache_fails_another_step() {
    let hybrid = hybrid();
    for id in ["released", "failed"] {
        hybrid.hold(id).await;
    }
    hybrid.cache.set(Fault::Failing);
    let key = request("released").key().clone();
    let release = step(&hybrid.store, &key, ForcedAction::Release).await;
    let forced = hybrid.store.force(&release).await.unwrap();
    assert!(matches!(forced, Forced::Done { .. }), "{forced:?}");
    assert_eq!(name(&hybrid, &request("released")).await, "acquired");
    let key = request("failed").key().clone();
    let fail = ForcedAction::Fail {
        failure: Failure::new("stuck", "its worker is gone"),
        retention: HOUR,
    };
    let fail = step(&hybrid.store, &key, fail).await;
    let forced = hybrid.store.force(&fail).await.unwrap();
    assert!(matches!(forced, Forced::Done { .. }), "{forced:?}");
    assert_eq!(name(&hybrid, &request("failed")).await, "failed");
}

#[tokio::test]
async fn a_step_that_the_database_cannot_take_leaves_the_cache_alone() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    let key = request("done").key().clone();
    let delete = delete(&hybrid.store, &key).await;
    hybrid.database.break_down(true);
    let error = hybrid.store.force(&delete).await.unwrap_err();
    assert_eq!(error.effect(), Effect::None);
    assert!(hybrid.cache.kept(&key).await.is_some());
    assert_eq!(name(&hybrid, &request("done")).await, "completed");
}

#[tokio::test]
async fn lists_are_the_databases() {
    let hybrid = hybrid();
    hybrid.cached("done", "x").await;
    hybrid.hold("held").await;
    let reads = hybrid.cache.reads();
    hybrid.cache.set(Fault::Failing);
    let admin = hybrid.store.admin().expect("the database has one");
    let page = admin.list(&RecordFilter::new(), None, 10).await.unwrap();
    let mut states: Vec<_> = page
        .records
        .iter()
        .map(|record| record.state.name())
        .collect();
    states.sort_unstable();
    assert_eq!(states, ["completed", "in_flight"]);
    let one = admin.summary(request("done").key()).await.unwrap().unwrap();
    assert_eq!(one.state, SummaryState::Completed);
    assert_eq!(hybrid.cache.reads(), reads, "the cache was read");
}
