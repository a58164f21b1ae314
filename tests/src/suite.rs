//! Running cases against a harness.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;

use crate::failure::Kind;
use crate::secrets::{self, Watch};
use crate::{Case, CaseError, CaseResult, Context, Harness, Settings};

/// How long the threads of a case may take to end.
const CLEAN_UP: Duration = Duration::from_secs(20);

/// The outcome of a case.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It was not run, and why: the backend does not promise what it needs, or the server does not
    /// let it.
    NotRun(String),
    /// It met the deadline, stood still, or was late, and where. It violated nothing else.
    Unfinished(String),
    /// It failed, and why.
    Failed(String),
}

impl Outcome {
    /// Returns why the case neither passed nor was ignored.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Passed | Self::NotRun(_) => None,
            Self::Unfinished(message) | Self::Failed(message) => Some(message),
        }
    }
}

/// A case and its outcome.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The case's full name.
    pub case: String,
    /// The outcome.
    pub outcome: Outcome,
}

/// Returns all cases, by law.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    #[cfg(not(test))]
    let all = crate::cases::ALL;
    #[cfg(test)]
    let all: &[&[Case]] = &[];
    all.iter().copied().flatten()
}

/// Runs one case on its own runtime and cleans up.
#[must_use]
pub fn run_case(harness: &Arc<dyn Harness>, case: &Case, settings: &Settings) -> Outcome {
    if let Some(promise) = case.lacks(&harness.profile()) {
        return Outcome::NotRun(promise.reason());
    }
    secrets::listen();
    let watch = Watch::default();
    let _watching = watch.of_this_thread();
    let of_threads = watch.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || of_threads.for_this_thread())
        .build();
    let result = runtime.map_err(CaseError::from).and_then(|runtime| {
        let result = runtime.block_on(in_context(harness, case, settings, &watch));
        runtime.shutdown_timeout(CLEAN_UP);
        result
    });
    let result = match (result, watch.verdict()) {
        (Err(failure), Err(shown)) => Err(CaseError::new(format!("{failure}\n{shown}"))),
        (result, shown) => result.and(shown),
    };
    let Err(error) = result else {
        return Outcome::Passed;
    };
    let with_seed = || format!("{error}\nseed: IDEM_SEED={}", settings.seed);
    match error.kind {
        Kind::NotRun => Outcome::NotRun(error.to_string()),
        Kind::Unfinished => Outcome::Unfinished(with_seed()),
        Kind::Failed => Outcome::Failed(with_seed()),
    }
}

async fn in_context(
    harness: &Arc<dyn Harness>,
    case: &Case,
    settings: &Settings,
    watch: &Watch,
) -> CaseResult {
    let seed = settings.seed ^ hash(case.name);
    let created = Context::watched(Arc::clone(harness), seed, watch.clone());
    let context = finished(created, settings, watch).await??;
    let context = Arc::new(context.with_least_lease(settings.shortest_lease));
    // A task of its own: a case that blocks cannot delay the deadline.
    let mut task = tokio::spawn({
        let (context, run) = (Arc::clone(&context), case.run);
        async move { AssertUnwindSafe(run(&context)).catch_unwind().await }
    });
    let result = match finished(&mut task, settings, watch).await {
        Err(unfinished) => {
            task.abort();
            Err(unfinished)
        }
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(Err(panic))) => Err(CaseError::new(panic_message(&*panic))),
        Ok(Ok(Ok(result))) => result,
    };
    let cleaned = finished(context.destroy(), settings, watch).await;
    let cleaned = cleaned.map_err(|unfinished| unfinished.while_doing("destroy"));
    result.and(cleaned.flatten())
}

/// Awaits a part of a case, which may take long but not stand still.
async fn finished<T>(
    part: impl Future<Output = T>,
    settings: &Settings,
    watch: &Watch,
) -> CaseResult<T> {
    let (deadline, silence, last) = (settings.deadline, settings.silence, &watch.last_call);
    last.goes_on();
    let message = tokio::select! {
        done = part => return Ok(done),
        () = last.stands_still(silence) => format!("no call was answered for {silence:?}: {last}"),
        () = tokio::time::sleep(deadline) => {
            format!("did not finish within {deadline:?} (IDEM_DEADLINE): {last}")
        }
    };
    Err(CaseError::late(message))
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .map_or_else(|| "panicked".to_owned(), |text| format!("panicked: {text}"))
}

/// FNV-1a, so that a case draws the same numbers whichever others run.
pub(crate) fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Runs every case whose full name is chosen, several at a time, for programs other than tests; for
/// tests see [`main`](crate::main).
#[must_use]
pub fn run_all(
    harness: &Arc<dyn Harness>,
    settings: &Settings,
    threads: usize,
    is_chosen: impl Fn(&str) -> bool,
) -> Vec<Verdict> {
    let cases: Vec<_> = cases()
        .filter(|case| is_chosen(&case.full_name()))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut verdicts = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            verdicts.push(Verdict {
                case: case.full_name(),
                outcome: run_case(harness, case, settings),
            });
        }
        verdicts
    };
    let mut verdicts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .flat_map(|done| done.expect("cases are caught"))
            .collect()
    });
    verdicts.sort_by(|one, two| one.case.cmp(&two.case));
    verdicts
}
