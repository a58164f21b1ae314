//! Callers that find the request being worked on.

use std::io;
use std::time::Duration;

use idem_core::engine::{Saga, SagaStep};
use idem_core::{
    BusyPolicy, Claim, ClaimRequest, ErrorKind, Failure, Fingerprint, IdempotencyStore, Outcome,
    Policy, Response, RunError, StalePolicy,
};
use tokio::task::JoinHandle;

use super::support::{
    Effects, Fault, MINUTES, Scripted, calm, counted, idem, key, until, until_free,
};

type Run = JoinHandle<Result<Outcome<u32>, RunError<io::Error, u32>>>;

/// Claims the key as another attempt.
async fn other(store: &Scripted, lease: Duration) -> Claim {
    let request = ClaimRequest::new(key().clone(), Fingerprint::of(&1).unwrap()).with_lease(lease);
    store.claim(&request).await.unwrap().acquired().unwrap()
}

/// Starts a run that waits, and has sent more than one claim.
async fn waiting(store: &Scripted, policy: Policy, effects: &Effects) -> Run {
    let idem = idem(store, policy.with_on_busy(BusyPolicy::wait(MINUTES)));
    let effects = effects.clone();
    let before = store.calls("claim");
    let run = tokio::spawn(async move { idem.run(key(), &1, |_| counted(effects)).await });
    until("it waits", || store.calls("claim") > before + 1).await;
    run
}

#[tokio::test]
async fn a_caller_is_refused_unless_configured_to_wait() {
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
    until("it still polls", || store.calls("claim") > calls + 6).await;
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
    let max_pause = store.max_pause();
    assert!(
        max_pause <= lease + Duration::from_millis(2),
        "{max_pause:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiting_caller_polls_no_more_and_leaves_nothing_behind() {
    let store = Scripted::new();
    let claim = other(&store, MINUTES).await;
    let effects = Effects::default();
    let run = waiting(&store, calm(), &effects).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    let calls = store.calls("claim");
    tokio::time::sleep(MINUTES / 2).await;
    // One claim may have been under way.
    assert!(store.calls("claim") <= calls + 1);
    store.release(&claim).await.unwrap();
    until_free(&store).await;
    assert_eq!(effects.count(), 0);
}

/// Runs a key that a transaction holds until `free_after`; returns the result and how long it took.
async fn contended(policy: Policy, free_after: Duration) -> (Result<u32, ErrorKind>, Duration) {
    let store = Scripted::new();
    store.always("claim", Fault::Contended);
    let idem = idem(&store, policy);
    let began = tokio::time::Instant::now();
    let healing = async {
        tokio::time::sleep(free_after).await;
        store.heal();
        std::future::pending::<()>().await;
    };
    let effects = Effects::default();
    let outcome = tokio::select! {
        outcome = idem.run(key(), &1, |_| counted(effects.clone())) => outcome,
        () = healing => unreachable!(),
    };
    let outcome = outcome.map(Outcome::into_inner).map_err(|error| {
        assert!(matches!(error, RunError::Store(_)), "{error:?}");
        error.store_error().unwrap().kind()
    });
    assert_eq!(effects.count(), u32::from(outcome.is_ok()));
    (outcome, began.elapsed())
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_contended_key_is_claimed_again_until_the_retry_timeout() {
    let patient = calm().with_retry_timeout(2 * SECOND);
    let (outcome, took) = contended(patient.clone(), MINUTES).await;
    assert_eq!(outcome, Err(ErrorKind::Contention));
    assert!(took >= 2 * SECOND && took < 3 * SECOND, "{took:?}");
    let (outcome, took) = contended(patient, SECOND).await;
    assert_eq!(outcome, Ok(1));
    assert!(took < 2 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_waits_for_a_contended_key_too() {
    let waits = |limit| {
        calm()
            .with_retry_timeout(2 * SECOND)
            .with_on_busy(BusyPolicy::wait(limit))
    };
    let (outcome, took) = contended(waits(30 * SECOND), 20 * SECOND).await;
    assert_eq!(outcome, Ok(1));
    assert!(took >= 20 * SECOND && took < 21 * SECOND, "{took:?}");
    for limit in [SECOND / 2, 30 * SECOND] {
        let (outcome, took) = contended(waits(limit), MINUTES).await;
        assert_eq!(outcome, Err(ErrorKind::Contention));
        assert!(took >= limit && took < limit + SECOND, "{took:?}");
    }
    // A short race does not count as a wait.
    let (outcome, _) = contended(waits(Duration::ZERO), Duration::from_millis(20)).await;
    assert_eq!(outcome, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn no_more_wait_for_a_contended_key_than_may() {
    let store = Scripted::new();
    store.always("claim", Fault::Contended);
    let policy = calm().with_on_busy(BusyPolicy::wait(MINUTES));
    let idem = idem(&store, policy).with_max_waiters(0);
    let began = tokio::time::Instant::now();
    let outcome = idem.run(key(), &1, |_| counted(Effects::default())).await;
    assert!(matches!(outcome, Err(RunError::Store(_))), "{outcome:?}");
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_record_that_was_seen_is_returned_when_the_key_is_contended_after() {
    let store = Scripted::new();
    let _claim = other(&store, MINUTES).await;
    let policy = calm().with_on_busy(BusyPolicy::wait(Duration::from_millis(300)));
    let idem = idem(&store, policy);
    let run =
        tokio::spawn(async move { idem.run(key(), &1, |_| counted(Effects::default())).await });
    until("it waits", || store.calls("claim") > 2).await;
    store.always("claim", Fault::Contended);
    let outcome = run.await.unwrap();
    assert!(matches!(outcome, Err(RunError::InFlight(_))), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn no_limit_is_too_long_for_the_clock() {
    let store = Scripted::new();
    for operation in ["claim", "complete"] {
        store.next(operation, &[Fault::Down, Fault::Contended]);
    }
    let endless = calm()
        .with_retry_timeout(Duration::MAX)
        .with_on_busy(BusyPolicy::wait(Duration::MAX));
    let runs = idem(&store, endless.clone());
    let outcome = runs.run(key(), &1, |_| counted(Effects::default()));
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(1));

    let store = Scripted::new();
    let claim = other(&store, MINUTES).await;
    let run = waiting(&store, endless.clone(), &Effects::default()).await;
    store.release(&claim).await.unwrap();
    assert_eq!(run.await.unwrap().unwrap(), Outcome::Fresh(1));

    // A lease or a retention has a limit of its own.
    for policy in [
        endless.clone().with_lease(Duration::MAX),
        endless.clone().with_retention(Duration::MAX),
        endless.with_failure_retention(Duration::MAX),
    ] {
        let runs = idem(&Scripted::new(), policy);
        let outcome = runs.run(key(), &1, |_| counted(Effects::default())).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.store_error().unwrap().kind(), ErrorKind::InvalidInput);
        let saga = Saga::new().step("a", async |_: SagaStep<u32>| Ok(()));
        assert!(saga.run(&runs, key(), 7).await.is_err());
    }
}
