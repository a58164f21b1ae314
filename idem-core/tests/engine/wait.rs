//! Callers that find the request being worked on.

use std::io;
use std::time::Duration;

use idem_core::{
    BusyPolicy, Claim, ClaimRequest, Failure, Fingerprint, IdempotencyStore, Outcome, Policy,
    Response, RunError, StalePolicy,
};
use tokio::task::JoinHandle;

use crate::support::{
    Effects, Fault, MINUTES, Scripted, calm, counted, idem, key, until, until_free,
};

type Run = JoinHandle<Result<Outcome<u32>, RunError<io::Error, u32>>>;

/// Somebody else's claim of the key.
async fn other(store: &Scripted, lease: Duration) -> Claim {
    let request = ClaimRequest::new(key().clone(), Fingerprint::of(&1).unwrap()).with_lease(lease);
    store.claim(&request).await.unwrap().acquired().unwrap()
}

/// A run that waits, seen to have asked more than once.
async fn waiting(store: &Scripted, policy: Policy, effects: &Effects) -> Run {
    let idem = idem(store, policy.with_on_busy(BusyPolicy::wait(MINUTES)));
    let effects = effects.clone();
    let before = store.calls("claim");
    let run = tokio::spawn(async move { idem.run(key(), &1, |_| counted(effects)).await });
    until("it waits", || store.calls("claim") > before + 1).await;
    run
}

#[tokio::test]
async fn a_caller_is_refused_unless_told_to_wait() {
    let store = Scripted::new();
    let _claim = other(&store, MINUTES).await;
    let effects = Effects::default();
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, |_| counted(effects.clone())).await;
    let error = outcome.unwrap_err();
    assert!(matches!(error, RunError::InFlight(_)), "{error:?}");
    let after = error.retry_after().unwrap();
    assert!(after > MINUTES / 2 && after <= MINUTES, "{after:?}");
    assert_eq!((effects.count(), store.calls("claim")), (0, 2));
}

#[tokio::test]
async fn a_waiting_caller_gets_the_result() {
    let store = Scripted::new();
    let claim = other(&store, MINUTES).await;
    let effects = Effects::default();
    let run = waiting(&store, calm(), &effects).await;
    let response = Response::json(&42).unwrap();
    store.complete(&claim, &response, MINUTES).await.unwrap();
    assert_eq!(run.await.unwrap().unwrap().into_replayed(), Some(42));
    assert_eq!(effects.count(), 0);
}

#[tokio::test]
async fn a_waiting_caller_gets_the_failure() {
    let store = Scripted::new();
    let claim = other(&store, MINUTES).await;
    let run = waiting(&store, calm(), &Effects::default()).await;
    let failure = Failure::new("card_declined", "");
    store.fail(&claim, &failure, MINUTES).await.unwrap();
    let outcome = run.await.unwrap();
    let Err(RunError::Failed(failed)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(failed.failure, failure);
}

#[tokio::test]
async fn a_waiting_caller_runs_the_work_when_the_key_is_released() {
    let store = Scripted::new();
    let claim = other(&store, MINUTES).await;
    let run = waiting(&store, calm(), &Effects::default()).await;
    store.release(&claim).await.unwrap();
    assert_eq!(run.await.unwrap().unwrap(), Outcome::Fresh(1));
}

#[tokio::test]
async fn a_waiting_caller_takes_over_when_the_lease_ends() {
    let store = Scripted::new();
    let claim = other(&store, Duration::from_millis(80)).await;
    let effects = Effects::default();
    let run = waiting(&store, calm(), &effects).await;
    assert_eq!(run.await.unwrap().unwrap(), Outcome::Fresh(1));
    let record = store.peek().unwrap();
    assert!(record.info().token > claim.token());
    assert_eq!(record.info().attempts, 2);
}

#[tokio::test]
async fn a_waiting_caller_that_may_not_take_over_gets_an_abandoned_failure() {
    let store = Scripted::new();
    let _claim = other(&store, Duration::from_millis(80)).await;
    let effects = Effects::default();
    let policy = calm().with_on_stale(StalePolicy::Fail);
    let outcome = waiting(&store, policy, &effects).await.await.unwrap();
    let Err(RunError::Failed(failed)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(failed.failure.code(), Failure::ABANDONED);
    assert_eq!(effects.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_limit() {
    let store = Scripted::new();
    let _claim = other(&store, MINUTES).await;
    let limit = Duration::from_secs(20);
    let idem = idem(&store, calm().with_on_busy(BusyPolicy::wait(limit)));
    let started = tokio::time::Instant::now();
    let outcome = idem.run(key(), &1, |_| counted(Effects::default())).await;
    assert!(matches!(outcome, Err(RunError::InFlight(_))), "{outcome:?}");
    let waited = started.elapsed();
    assert!(
        waited >= limit && waited < limit + Duration::from_millis(50),
        "{waited:?}"
    );
    assert!(store.calls("claim") > 40);
}

#[tokio::test(start_paused = true)]
async fn a_wait_outlasts_a_store_that_is_away_for_a_while() {
    let store = Scripted::new();
    let claim = other(&store, MINUTES).await;
    let run = waiting(&store, calm(), &Effects::default()).await;
    store.next("claim", &[Fault::Down; 5]);
    let calls = store.calls("claim");
    until("it still asks", || store.calls("claim") > calls + 6).await;
    store.release(&claim).await.unwrap();
    assert_eq!(run.await.unwrap().unwrap(), Outcome::Fresh(1));
}

#[tokio::test]
async fn of_many_callers_at_once_one_works_and_all_get_its_result() {
    let store = Scripted::new();
    let idem = idem(&store, calm().with_on_busy(BusyPolicy::wait(MINUTES)));
    let effects = Effects::default();
    let run = |_| {
        let (idem, effects) = (idem.clone(), effects.clone());
        tokio::spawn(async move { idem.run(key(), &1, |_| counted(effects)).await.unwrap() })
    };
    let runs: Vec<_> = (0..50).map(run).collect();
    let mut fresh = 0;
    for run in runs {
        let outcome = run.await.unwrap();
        fresh += u32::from(!outcome.is_replayed());
        assert_eq!(outcome.into_inner(), 1);
    }
    assert_eq!((fresh, effects.count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn no_pause_of_a_wait_is_longer_than_the_lease() {
    let store = Scripted::new();
    let lease = Duration::from_millis(150);
    let _claim = other(&store, lease).await;
    let idem = idem(
        &store,
        calm().with_on_busy(BusyPolicy::wait(MINUTES * 1000)),
    );
    let outcome = idem.run(key(), &1, |_| counted(Effects::default())).await;
    assert_eq!(outcome.unwrap(), Outcome::Fresh(1));
    // Left alone, the pauses grow to half a second.
    let longest = store.longest_pause();
    assert!(longest <= lease + Duration::from_millis(2), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiting_caller_asks_no_more_and_leaves_nothing_behind() {
    let store = Scripted::new();
    let claim = other(&store, MINUTES).await;
    let effects = Effects::default();
    let run = waiting(&store, calm(), &effects).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    let calls = store.calls("claim");
    tokio::time::sleep(MINUTES / 2).await;
    // One question may have been under way.
    assert!(store.calls("claim") <= calls + 1);
    store.release(&claim).await.unwrap();
    until_free(&store).await;
    assert_eq!(effects.count(), 0);
}
