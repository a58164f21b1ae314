//! Every outcome of a case is reported, and the suite cleans up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_conformance::idem_core::{BoxError, IdempotencyStore, MemoryStore};
use idem_conformance::{
    Case, CaseFuture, Context, Harness, Outcome, Product, Profile, Promise, Settings, async_trait,
    run_case,
};

/// Counts created and removed namespaces.
#[derive(Default)]
struct Counting {
    created: AtomicU32,
    destroyed: AtomicU32,
}

#[async_trait]
impl Harness for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn profile(&self) -> Profile {
        Profile::new()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        Ok(Product::new("nothing", "0"))
    }

    async fn create(&self) -> Result<String, BoxError> {
        Ok(self.created.fetch_add(1, Ordering::SeqCst).to_string())
    }

    async fn open(&self, _: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(MemoryStore::new()))
    }

    async fn destroy(&self, _: &str) -> Result<(), BoxError> {
        self.destroyed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Runs one case, with a minute for it: a panic that prints its backtrace may take seconds.
fn run(needs: &'static [Promise], run: for<'a> fn(&'a Context) -> CaseFuture<'a>) -> Outcome {
    run_within(Duration::from_secs(60), needs, run)
}

/// Runs one case and asserts that its namespace is gone.
fn run_within(
    deadline: Duration,
    needs: &'static [Promise],
    run: for<'a> fn(&'a Context) -> CaseFuture<'a>,
) -> Outcome {
    let counting = Arc::new(Counting::default());
    let harness: Arc<dyn Harness> = counting.clone();
    let case = Case {
        law: 1,
        name: "a_case",
        needs,
        run,
    };
    let settings = Settings::new().with_seed(7).with_deadline(deadline);
    let outcome = run_case(&harness, &case, &settings);
    let [created, destroyed] =
        [&counting.created, &counting.destroyed].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(created, destroyed, "namespaces");
    outcome
}

#[track_caller]
fn fails_with(outcome: &Outcome, part: &str) {
    match outcome {
        Outcome::Failed(message) => {
            assert!(message.contains(part), "{message}");
            assert!(message.contains("IDEM_SEED=7"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_case_that_returns_passes() {
    assert!(matches!(
        run(&[], |_| Box::pin(async { Ok(()) })),
        Outcome::Passed
    ));
}

#[test]
fn a_case_that_fails_tells_its_message_and_its_seed() {
    let failing = run(&[], |_| Box::pin(async { Err("it is broken".into()) }));
    fails_with(&failing, "it is broken");
}

#[test]
fn a_case_that_panics_fails() {
    let panicking = run(&[], |_| Box::pin(async { panic!("out of {}", "range") }));
    fails_with(&panicking, "panicked: out of range");
}

#[test]
fn a_case_that_hangs_fails() {
    let deadline = Duration::from_millis(300);
    let hanging = run_within(deadline, &[], |_| Box::pin(std::future::pending()));
    fails_with(&hanging, "did not finish");
}

#[test]
fn a_case_that_needs_more_is_not_run() {
    let needing = run(&[Promise::Network], |_| {
        Box::pin(async { panic!("it was run") })
    });
    assert!(matches!(needing, Outcome::NotPromised(Promise::Network)));
}
