//! Every outcome of a case is reported, and the suite cleans up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_conformance::idem_core::{BoxError, IdempotencyStore, MemoryStore};
use idem_conformance::{
    Case, CaseError, CaseFuture, Context, Harness, Outcome, Product, Profile, Promise, Settings,
    async_trait, in_time, run_case,
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

fn run(needs: &'static [Promise], run: for<'a> fn(&'a Context) -> CaseFuture<'a>) -> Outcome {
    run_with(Settings::new(), needs, run)
}

/// Runs one case and asserts that its namespace is gone.
fn run_with(
    settings: Settings,
    needs: &'static [Promise],
    run: for<'a> fn(&'a Context) -> CaseFuture<'a>,
) -> Outcome {
    let counting = Arc::new(Counting::default());
    let harness: Arc<dyn Harness> = counting.clone();
    let case = Case {
        law: 1,
        name: "a_case",
        needs,
        expensive: false,
        run,
    };
    let outcome = run_case(&harness, &case, &settings.with_seed(7));
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

/// A case that claims keys for two seconds.
fn claims(cx: &Context) -> CaseFuture<'_> {
    Box::pin(async {
        for number in 0..20 {
            let key = cx.key(number.to_string());
            cx.hold(&cx.request(&key)).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    })
}

#[track_caller]
fn does_not_finish(outcome: &Outcome, parts: [&str; 2]) {
    match outcome {
        Outcome::Unfinished(message) => {
            let has = |part: &str| message.contains(part);
            assert!(parts.into_iter().all(has), "{message}");
            assert!(has("IDEM_SEED=7"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_case_that_stands_still_does_not_finish() {
    let settings = Settings::new().with_silence(Duration::from_millis(300));
    let standing = run_with(settings, &[], |cx| {
        Box::pin(async {
            cx.hold(&cx.request(&cx.key("one"))).await?;
            std::future::pending().await
        })
    });
    does_not_finish(&standing, ["no call was answered for 300ms", "`claim`"]);
}

#[test]
fn a_case_that_goes_on_may_be_long() {
    let settings = Settings::new().with_silence(Duration::from_millis(700));
    assert!(matches!(run_with(settings, &[], claims), Outcome::Passed));
}

#[test]
fn a_case_that_goes_on_for_too_long_does_not_finish() {
    let settings = Settings::new().with_deadline(Duration::from_millis(300));
    let long = run_with(settings, &[], claims);
    does_not_finish(&long, ["did not finish within 300ms", "`claim`"]);
}

#[test]
fn a_case_that_is_late_does_not_finish() {
    let late = run(&[], |_| {
        let (took, limit) = (Duration::from_secs(3), Duration::from_secs(2));
        Box::pin(async move { in_time(took, limit) })
    });
    does_not_finish(&late, ["took 3s, and may take 2s", "suite.rs"]);
}

#[test]
fn a_case_that_cannot_run_here_is_not_run_and_says_why() {
    let refused = run(&[], |_| {
        Box::pin(async { Err(CaseError::not_run("the user may not GRANT")) })
    });
    assert!(matches!(refused, Outcome::NotRun(why) if why == "the user may not GRANT"));
}

#[test]
fn a_case_that_needs_more_is_not_run() {
    let needing = run(&[Promise::Network], |_| {
        Box::pin(async { panic!("it was run") })
    });
    let reason = Promise::Network.reason();
    assert!(matches!(needing, Outcome::NotRun(why) if why == reason));
}
