//! How sagas end and stop.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use idem_core::engine::{Saga, SagaEnd, SagaStep, SagaStop, StepError};
use idem_core::{ErrorKind, Idempotency, IdempotencyStore, MemoryStore, Policy, RunError};

use super::support::key;

type Step = SagaStep<u32>;

/// The effects, in order.
#[derive(Default, Clone)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn write(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    fn read(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }

    /// A step that succeeds.
    fn does(
        &self,
        what: &'static str,
    ) -> impl Fn(Step) -> std::future::Ready<Result<&'static str, StepError>> + Send + Sync + 'static
    {
        let log = self.clone();
        move |_| {
            log.write(what);
            std::future::ready(Ok(what))
        }
    }

    /// A step that fails in this way the first `times` times.
    fn fails(
        &self,
        what: &'static str,
        times: u32,
        error: fn(&'static str) -> StepError,
    ) -> impl Fn(Step) -> std::future::Ready<Result<&'static str, StepError>> + Send + Sync + 'static
    {
        let log = self.clone();
        let left = AtomicU32::new(times);
        move |_| {
            let fails = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
            log.write(if fails.is_ok() { "failed" } else { what });
            std::future::ready(if fails.is_ok() {
                Err(error(what))
            } else {
                Ok(what)
            })
        }
    }
}

fn idem() -> Idempotency {
    Idempotency::new(MemoryStore::new())
}

#[tokio::test]
async fn a_finished_saga_is_replayed_and_does_nothing() {
    let (log, idem) = (Log::default(), idem());
    let saga = Saga::new()
        .step("a", log.does("a"))
        .step("b", log.does("b"));
    let first = saga.run(&idem, &key(), 7).await.unwrap();
    let again = saga.run(&idem, &key(), 7).await.unwrap();
    assert!(!first.is_replayed() && again.is_replayed());
    assert_eq!(first.as_ref().into_inner(), again.as_ref().into_inner());
    let SagaEnd::Completed { results } = first.into_inner() else {
        panic!("not completed");
    };
    assert_eq!(results["b"], "b");
    assert_eq!(log.read(), ["a", "b"]);
    let other = saga.run(&idem, &key(), 8).await;
    assert!(matches!(other, Err(RunError::Conflict(_))), "{other:?}");
}

#[tokio::test]
async fn a_temporary_error_stops_it_and_the_next_run_goes_on_there() {
    let (log, idem) = (Log::default(), idem());
    let saga = Saga::new()
        .step("a", log.does("a"))
        .undone_by(log.does("undo a"))
        .step("b", log.fails("b", 1, StepError::temporary));
    let stopped = saga.run(&idem, &key(), 7).await.unwrap_err().into_work();
    let Some(SagaStop::Step { step, reason }) = stopped else {
        panic!("{stopped:?}");
    };
    assert_eq!((step.as_str(), reason.to_string().as_str()), ("b", "b"));
    assert!(
        saga.run(&idem, &key(), 7)
            .await
            .unwrap()
            .into_inner()
            .is_completed()
    );
    assert_eq!(log.read(), ["a", "failed", "b"]);
}

#[tokio::test]
async fn a_permanent_error_undoes_the_done_steps_the_last_one_first() {
    let (log, idem) = (Log::default(), idem());
    let saga = Saga::new()
        .step("a", log.does("a"))
        .undone_by(log.does("undo a"))
        .step("b", log.does("b"))
        .step("c", log.does("c"))
        .undone_by(log.does("undo c"))
        .step("d", log.fails("d", 9, StepError::permanent))
        .undone_by(log.does("undo d"))
        .step("e", log.does("e"));
    for _ in 0..2 {
        let end = saga.run(&idem, &key(), 7).await.unwrap().into_inner();
        let expected = SagaEnd::Compensated {
            failed_step: "d".to_owned(),
            reason: "d".to_owned(),
            undone: vec!["c".to_owned(), "a".to_owned()],
        };
        assert_eq!(end, expected);
    }
    assert_eq!(log.read(), ["a", "b", "c", "failed", "undo c", "undo a"]);
}

#[tokio::test]
async fn a_failed_compensation_is_reported_and_the_rest_still_run() {
    let kinds: [fn(&'static str) -> StepError; 2] = [
        |text| StepError::permanent(text),
        |text| StepError::temporary(text),
    ];
    for error in kinds {
        let (log, idem) = (Log::default(), idem());
        let saga = Saga::new()
            .step("a", log.does("a"))
            .undone_by(log.does("undo a"))
            .step("b", log.does("b"))
            .undone_by(log.fails("undo b", 2, error))
            .step("c", log.fails("c", 1, StepError::permanent));
        for undone in [vec!["a".to_owned()], vec!["a".to_owned()]] {
            let stopped = saga.run(&idem, &key(), 7).await.unwrap_err();
            let text = stopped.to_string();
            assert!(
                text.contains("`c`") && text.contains("`b`") && !text.contains("undo b"),
                "{text}"
            );
            let Some(SagaStop::Compensation {
                failures,
                undone: returned,
                ..
            }) = stopped.into_work()
            else {
                panic!("{text}");
            };
            assert_eq!((failures[0].step.as_str(), failures.len()), ("b", 1));
            assert_eq!(failures[0].reason.to_string(), "undo b");
            assert_eq!(returned, undone);
        }
        let end = saga.run(&idem, &key(), 7).await.unwrap().into_inner();
        assert!(matches!(end, SagaEnd::Compensated { undone, .. } if undone == ["b", "a"]));
        let expected = ["a", "b", "failed", "failed", "undo a", "failed", "undo b"];
        assert_eq!(
            log.read(),
            expected,
            "what was refused is not tried again, nor what is undone"
        );
    }
}

#[tokio::test]
async fn a_step_that_may_have_happened_is_undone_too() {
    let (log, idem) = (Log::default(), idem().with_policy(Policy::at_most_once()));
    let panics = |_: Step| async { panic!("the charge panics") };
    let saga = Saga::new()
        .step("a", log.does("a"))
        .undone_by(log.does("undo a"))
        .step("b", move |step| {
            let panicking = panics(step);
            async move {
                let () = panicking.await;
                Ok(())
            }
        })
        .undone_by(log.does("undo b"));
    let saga = Arc::new(saga);
    let (running, engine) = (Arc::clone(&saga), idem.clone());
    let run = tokio::spawn(async move { running.run(&engine, &key(), 7).await });
    assert!(run.await.unwrap_err().is_panic());
    let end = saga.run(&idem, &key(), 7).await.unwrap().into_inner();
    assert!(matches!(end, SagaEnd::Compensated { undone, .. } if undone == ["b", "a"]));
    assert_eq!(log.read(), ["a", "undo b", "undo a"]);
}

#[tokio::test]
async fn a_value_that_cannot_be_kept_counts_as_done_and_is_undone() {
    let (log, idem) = (Log::default(), idem());
    let saga = Saga::new()
        .step("a", async |_: Step| {
            Ok(std::collections::HashMap::from([((1, 2), 3)]))
        })
        .undone_by(log.does("undo a"));
    let end = saga.run(&idem, &key(), 7).await.unwrap().into_inner();
    assert!(matches!(end, SagaEnd::Compensated { undone, .. } if undone == ["a"]));
}

#[tokio::test]
async fn a_step_that_seals_itself_is_not_done_again() {
    let store = MemoryStore::new();
    let idem = Idempotency::new(store.clone());
    let log = Log::default();
    let (seals, written) = (store.clone(), log.clone());
    let saga = Saga::new()
        .step("a", move |step: Step| {
            let (store, log) = (seals.clone(), written.clone());
            async move {
                log.write("a");
                let claim = step
                    .work()
                    .claim()
                    .ok_or("no claim")
                    .map_err(StepError::permanent)?;
                let response = step.response("seat 7").map_err(StepError::permanent)?;
                let retention = std::time::Duration::from_secs(60);
                let sealed = store.complete(&claim, &response, retention).await;
                sealed.map_err(StepError::temporary)?;
                Err::<&str, _>(StepError::temporary("killed after its transaction"))
            }
        })
        .step("b", async |step: Step| {
            Ok(step.result::<String>("a").ok().flatten())
        });
    assert!(saga.run(&idem, &key(), 7).await.is_err());
    let end = saga.run(&idem, &key(), 7).await.unwrap().into_inner();
    assert!(matches!(end, SagaEnd::Completed { results } if results["b"] == "seat 7"));
    assert_eq!(log.read(), ["a"]);
}

#[tokio::test]
async fn a_saga_that_is_none_is_refused() {
    let idem = idem();
    let twice = Saga::new()
        .step("a", Log::default().does("a"))
        .step("a", Log::default().does("b"));
    for (saga, word) in [(Saga::<u32>::new(), "at least one"), (twice, "`a`")] {
        let Err(RunError::Store(error)) = saga.run(&idem, &key(), 7).await else {
            panic!("{saga:?} is accepted");
        };
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_step_whose_value_json_does_not_carry_is_undone_with_the_others() {
    let (log, idem) = (Log::default(), idem());
    let saga = Saga::new()
        .step("a", log.does("a"))
        .undone_by(log.does("undo a"))
        .step("measure", async |_: Step| Ok(Some(f64::NAN)))
        .undone_by(log.does("undo measure"));
    let end = saga.run(&idem, &key(), 7).await.unwrap().into_inner();
    let SagaEnd::Compensated {
        failed_step,
        reason,
        ..
    } = end
    else {
        panic!("not undone");
    };
    assert_eq!(failed_step, "measure");
    assert!(reason.contains("not finite"), "{reason}");
    assert_eq!(log.read(), ["a", "undo measure", "undo a"]);
}

#[tokio::test]
async fn reasons_are_in_the_fields_of_a_stop_and_in_no_text() {
    let (log, idem) = (Log::default(), idem());
    let secret = "SECRET-4242";
    let saga = Saga::new()
        .step("a", log.does("a"))
        .undone_by(log.fails(secret, 1, StepError::permanent))
        .step("b", log.fails(secret, 1, StepError::permanent));
    let error = saga.run(&idem, &key(), 7).await.unwrap_err();
    assert!(
        !format!("{error} {error:?} {error:#?}").contains("SECRET"),
        "a reason is shown"
    );
    let Some(SagaStop::Compensation { reason, .. }) = error.into_work() else {
        panic!("no compensation failed");
    };
    assert_eq!(reason, secret);

    let saga = Saga::new().step("a", log.fails(secret, 1, StepError::temporary));
    let other = idem_core::Key::new("tenant", "order", "other").unwrap();
    let error = saga.run(&idem, &other, 7).await.unwrap_err();
    assert!(
        !format!("{error} {error:?} {error:#?}").contains("SECRET"),
        "a reason is shown"
    );
}
