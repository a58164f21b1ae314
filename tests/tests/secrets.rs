//! A shown secret fails the case, wherever and however it is shown, and the suite's own output does
//! not show it.

use std::sync::{Arc, Mutex, PoisonError};

use idem_conformance::mutants::{Bug, MutantHarness};
use idem_conformance::secrets::{MARK, secret};
use idem_conformance::{Case, CaseFuture, Context, Harness, Outcome, Settings, run_case};

/// A secret that belongs to no case fails the next case that ends, so these tests run one at a
/// time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Returns the message with which such a case fails.
#[track_caller]
fn failure(run: for<'a> fn(&'a Context) -> CaseFuture<'a>) -> String {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let harness: Arc<dyn Harness> = Arc::new(MutantHarness::new(Bug::None));
    let case = Case {
        law: 14,
        name: "a_case",
        needs: &[],
        expensive: false,
        run,
    };
    match run_case(&harness, &case, &Settings::new()) {
        Outcome::Failed(message) => {
            assert!(!message.contains(MARK), "it is printed");
            assert!(message.contains("[secret]"), "{message}");
            message
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_of_a_case_is_printed_without_it() {
    failure(|_| Box::pin(async { Err(secret("it is broken").into()) }));
}

#[test]
fn a_panic_of_a_case_is_printed_without_it() {
    let message = failure(|_| Box::pin(async { panic!("{}", secret("out of range")) }));
    assert!(message.contains("panicked: out of range"), "{message}");
}

#[test]
fn a_panic_of_a_background_task_fails_the_case() {
    let message = failure(|cx| {
        Box::pin(async {
            let key = cx.key("one");
            let task = tokio::spawn(async move { panic!("lost {}", key.scope()) });
            assert!(task.await.is_err());
            Ok(())
        })
    });
    assert!(message.contains("a panic at tests/"), "{message}");
}

#[test]
fn a_log_line_of_ours_fails_the_case_at_every_level() {
    let message = failure(|cx| {
        Box::pin(async {
            let key = cx.key("one");
            tracing::trace!(target: "idem_sqlite::claim", scope = key.scope(), "claimed");
            Ok(())
        })
    });
    assert!(
        message.contains("a log line of idem_sqlite::claim"),
        "{message}"
    );
}

#[test]
fn a_span_of_ours_fails_the_case() {
    failure(|cx| {
        Box::pin(async {
            let key = cx.key("one");
            let span = tracing::debug_span!(target: "idem_core", "run", id = tracing::field::Empty);
            span.record("id", key.scope());
            Ok(())
        })
    });
}

#[test]
fn a_warning_of_a_driver_fails_the_case_and_its_wire_does_not() {
    let message = failure(|cx| {
        Box::pin(async {
            let key = cx.key("one");
            tracing::debug!(target: "driver::wire", "sent {}", key.scope());
            tracing::warn!(target: "driver::query", "slow statement {}", key.scope());
            Ok(())
        })
    });
    assert!(message.contains("driver::query"), "{message}");
    assert!(!message.contains("driver::wire"), "{message}");
}

#[test]
fn a_log_line_of_a_thread_of_its_own_fails_a_case() {
    let message = failure(|cx| {
        Box::pin(async {
            let scope = cx.key("one").scope().to_owned();
            let logs = move || tracing::warn!(target: "driver::thread", scope, "slow");
            std::thread::spawn(logs).join().expect("it only logs");
            Ok(())
        })
    });
    assert!(message.contains("driver::thread"), "{message}");
}
