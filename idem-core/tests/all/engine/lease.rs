//! The lease: renewed while the work runs, and the report of its loss.

use std::io;
use std::time::{Duration, Instant};

use idem_core::{
    ClaimRequest, Fingerprint, Idempotency, IdempotencyStore, Key, MemoryStore, Outcome, Record,
    RunError, Work,
};
use tokio::runtime::Handle;

use super::support::{
    Effects, Fault, MINUTES, Scripted, calm, counted, idem, key, until, until_free,
};

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_work_runs_and_not_after() {
    let store = Scripted::new();
    let idem = idem(&store, calm().with_lease(Duration::from_millis(200)));
    let outcome = idem.run(key(), &1, async |work: Work| {
        let before = work.claim().unwrap();
        until("renewed", || store.calls("renew") > 3).await;
        until("noted", || {
            work.claim().unwrap().lease_ends_at() > before.lease_ends_at()
        })
        .await;
        assert_eq!(work.token(), Some(before.token()));
        Ok::<_, io::Error>(1)
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(1));
    let renewals = store.calls("renew");
    // By the paused clock, which does not go on before every task that is due has run.
    tokio::time::sleep(MINUTES).await;
    assert_eq!(store.calls("renew"), renewals);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_blocks_its_thread_does_not_stop_the_renewals() {
    let store = Scripted::new();
    let idem = idem(&store, calm().with_lease(Duration::from_millis(200)));
    let run = tokio::spawn({
        let store = store.clone();
        async move {
            let work = async |_: Work| {
                let started = Instant::now();
                while store.calls("renew") < 4 && started.elapsed() < Duration::from_secs(30) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok::<_, io::Error>(store.calls("renew"))
            };
            idem.run(key(), &1, work).await.unwrap().into_inner()
        }
    });
    assert!(run.await.unwrap() >= 4);
}

#[tokio::test(start_paused = true)]
async fn renewals_that_fail_are_repeated() {
    let store = Scripted::new();
    let faults = [
        Fault::Down,
        Fault::LostAnswer,
        Fault::Broken,
        Fault::Silence,
    ];
    store.next("renew", &faults);
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, async |work: Work| {
        // Past the lease that the claim came with.
        tokio::time::sleep(MINUTES + MINUTES / 4).await;
        Ok::<_, io::Error>(work.is_lost())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(false));
    assert!(store.calls("renew") > 4);
}

#[tokio::test(start_paused = true)]
async fn a_store_out_of_reach_for_a_lease_is_a_lost_claim() {
    for fault in [Fault::Down, Fault::Silence, Fault::LostAnswer] {
        let store = Scripted::new();
        store.always("renew", fault);
        let started = tokio::time::Instant::now();
        let idem = idem(&store, calm());
        let outcome = idem.run(key(), &1, async |work: Work| {
            assert!(!work.is_lost());
            work.lost().await;
            assert!(work.is_lost());
            Err::<(), _>(io::Error::other("stopped"))
        });
        assert_eq!(outcome.await.unwrap_err().to_string(), "stopped");
        let held = started.elapsed();
        assert!(held <= MINUTES + Duration::from_secs(1), "{held:?}");
        assert!(held > MINUTES - Duration::from_secs(1), "{held:?}");
        assert!(store.calls("renew") > 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reported_loss_is_not_taken_back_but_the_renewals_go_on() {
    let store = Scripted::new();
    store.always("renew", Fault::Down);
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, async |work: Work| {
        work.lost().await;
        let ends = work.claim().unwrap().lease_ends_at();
        store.heal();
        until("renewed", || work.claim().unwrap().lease_ends_at() > ends).await;
        Ok::<_, io::Error>(work.is_lost())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(true));
}

#[tokio::test(start_paused = true)]
async fn the_next_renewal_reports_a_claim_that_was_taken_over() {
    let store = Scripted::new();
    let idem = idem(&store, calm());
    let started = tokio::time::Instant::now();
    let outcome = idem.run(key(), &1, async |work: Work| {
        store.release(&work.claim().unwrap()).await.unwrap();
        let request = ClaimRequest::new(key().clone(), Fingerprint::of(&1).unwrap());
        let taken = store.claim(&request).await.unwrap().acquired().unwrap();
        assert!(taken.token() > work.token().unwrap());
        work.lost().await;
        // By the renewal at a third, not by the clock at the end.
        assert!(started.elapsed() < MINUTES / 2);
        Ok::<_, io::Error>(1)
    });
    let error = outcome.await.unwrap_err();
    assert!(error.store_error().unwrap().is_claim_lost(), "{error:?}");
    assert_eq!(store.calls("renew"), 1);
    let record = store.peek();
    assert!(matches!(record, Some(Record::InFlight(_))), "{record:?}");
}

#[tokio::test]
async fn a_process_that_was_stopped_knows_at_its_first_check() {
    let store = Scripted::new();
    let idem = idem(&store, calm().with_lease(Duration::from_millis(50)));
    let outcome = idem.run(key(), &1, async |work: Work| {
        // Blocks the only thread, and with it the renewals.
        std::thread::sleep(Duration::from_millis(80));
        let lost = work.is_lost();
        work.lost().await;
        Ok::<_, io::Error>(lost)
    });
    // No other caller has claimed the key, so the late result is sealed all the same.
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(true));
}

#[tokio::test]
async fn a_task_that_outlives_its_run_sees_that_its_claim_is_lost() {
    let store = Scripted::new();
    let (send, receive) = tokio::sync::oneshot::channel();
    let idem = idem(&store, calm());
    let outcome = idem.run(key(), &1, async |work: Work| {
        let child = work.clone();
        let _ = send.send(tokio::spawn(async move {
            child.lost().await;
            child.is_lost()
        }));
        Ok::<_, io::Error>(work.is_lost())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Fresh(false));
    assert!(receive.await.unwrap().await.unwrap());
}

#[tokio::test]
async fn a_lease_that_is_over_before_the_work_starts_is_requested_again() {
    let store = Scripted::new();
    store.next("claim", &[Fault::Late, Fault::Late]);
    let idem = idem(&store, calm().with_lease(Duration::from_millis(30)));
    let effects = Effects::default();
    let outcome = idem.run(key(), &1, |_| counted(effects.clone())).await;
    assert_eq!(outcome.unwrap(), Outcome::Fresh(1));
    assert_eq!(effects.count(), 1);
    assert!(store.calls("claim") >= 3);
    let attempts = store.attempts();
    assert!(attempts.iter().all(|attempt| *attempt == attempts[0]));
}

#[tokio::test]
async fn a_lease_too_short_for_the_store_is_an_error_and_nothing_runs() {
    let store = Scripted::new();
    let policy = calm()
        .with_lease(Duration::from_nanos(1))
        .with_retry_timeout(Duration::from_millis(200));
    let effects = Effects::default();
    let idem = idem(&store, policy);
    let outcome = idem.run(key(), &1, async |_: Work| {
        effects.happen();
        Err::<(), _>(io::Error::other("it was fast enough"))
    });
    match outcome.await {
        Err(RunError::Store(error)) => assert!(error.is_retryable(), "{error}"),
        Err(RunError::Work(_)) => {}
        other => panic!("{other:?}"),
    }
    until_free(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_before_its_first_renewal_has_no_task_of_its_own() {
    let idem = Idempotency::new(MemoryStore::new());
    let alive = || Handle::current().metrics().num_alive_tasks();
    let before = alive();
    for number in 0..100 {
        let key = Key::new("tenant", "pay", number.to_string()).unwrap();
        let run = idem.run(&key, &1, async |_work| Ok::<_, io::Error>(alive()));
        let during = run.await.unwrap().into_inner();
        // The task that checks all leases, and the one that pushes it to another thread.
        assert!(during <= before + 2, "{during} tasks, {before} before");
    }
}

/// A runtime that no thread drives must not keep the leases of another from being renewed.
#[test]
fn runs_are_renewed_on_the_runtime_that_they_run_on() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let (store, idle, busy) = (Scripted::new(), runtime(), runtime());
    let idem = idem(&store, calm().with_lease(Duration::from_millis(200)));
    let other = Key::new("tenant", "pay", "another").unwrap();
    let quick = async |_work| Ok::<_, io::Error>(1);
    idle.block_on(idem.run(&other, &1, quick)).unwrap();
    let long = async |work: Work| {
        until("renewed", || store.calls("renew") > 3).await;
        Ok::<_, io::Error>(work.is_lost())
    };
    let outcome = busy.block_on(idem.run(key(), &1, long)).unwrap();
    assert_eq!(outcome, Outcome::Fresh(false));
    drop(idle);
}
