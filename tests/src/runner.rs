//! [`main`]: the test program of a backend.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use idem_core::{BoxError, ClaimRequest, Fingerprint, IdempotencyStore, Key, Response};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::report::{Row, Tally};
use crate::target::Found;
use crate::{
    Case, Harness, Outcome, Product, Promise, Settings, Target, cases, drawn, run_case, worker,
};

/// Cases mostly wait, so more of them run at a time than there are cores.
const THREADS: usize = 8;

/// Callers that are measured at a time, about as many as a row's cases have.
const CALLERS: usize = 16;

/// The longest lease that comes from a measurement.
const LONGEST: Duration = Duration::from_secs(2);

/// Cases run beside others that read it; one that writes it runs alone.
static ALONE: RwLock<()> = RwLock::new(());

/// Runs every case against every target, as `cargo test` and nextest expect; it is the `main` of a
/// test target with `harness = false`.
///
/// Environment:
///
/// | variable | meaning |
/// | --- | --- |
/// | `IDEM_BACKENDS` | the only targets to look for, separated by commas; `hybrid-*` means all with that prefix |
/// | `IDEM_ALL` | set: [derived](Target::derived) targets run, too |
/// | `IDEM_REQUIRE` | targets whose absence is a failure, written as `IDEM_BACKENDS` |
/// | `IDEM_SEED` | a number for what cases draw at random |
/// | `IDEM_DEADLINE` | how long a case may take, in seconds; default: 600 |
/// | `IDEM_DRAW` | a number: of the [expensive](Case::expensive) cases of derived targets, only those run that it [draws](drawn) |
/// | `IDEM_DRAWN` | other targets of which the same is true, written as `IDEM_BACKENDS` |
/// | `IDEM_DONE` | a file with a line `<target>::<case>` for each case that is left out, because it passed before |
/// | `IDEM_REPORT_DIR` | the folder for `<target>.json` |
///
/// A case that met the deadline, in which no call was answered for 30 s, or that is
/// [late](crate::CaseError::late), runs once more, alone, with the same seed. If it passes then, it counts as passed and is reported as slow. A case that
/// failed is not tried again.
#[must_use]
#[expect(
    clippy::needless_pass_by_value,
    reason = "called once, with a list made for it"
)]
pub fn main(targets: Vec<Target>) -> ExitCode {
    if let Some(code) = worker::serve(&targets) {
        return code;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut arguments = Arguments::from_args();
    let (settings, left_out) =
        match settings().and_then(|settings| Ok((settings, LeftOut::find()?))) {
            Ok(found) => found,
            Err(message) => {
                eprintln!("{message}");
                return ExitCode::FAILURE;
            }
        };
    let wanted = std::env::var("IDEM_BACKENDS").ok();
    let all = std::env::var_os("IDEM_ALL").is_some();
    let left_out = Arc::new(left_out);
    let suites: Vec<_> = targets
        .iter()
        .filter(|target| match wanted.as_deref() {
            Some(wanted) => is_among(target.name(), wanted),
            None => all || !target.is_derived,
        })
        .map(|target| Arc::new(runtime.block_on(Suite::find(target, &left_out))))
        .collect();
    let threads = suites.iter().filter_map(|suite| suite.slots()).min();
    arguments.test_threads = arguments.test_threads.or(threads).or(Some(THREADS));
    let trials = suites
        .iter()
        .flat_map(|suite| suite.trials(&arguments, &settings))
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list && !arguments.exact {
        // The others have a report since their last case.
        for suite in suites.iter().filter(|suite| suite.tally.is_empty()) {
            suite.report();
        }
    }
    conclusion.exit_code()
}

fn settings() -> Result<Settings, String> {
    let mut settings = Settings::new();
    if let Some(seed) = number("IDEM_SEED")? {
        settings = settings.with_seed(seed);
    }
    if let Some(seconds) = number("IDEM_DEADLINE")? {
        settings = settings.with_deadline(Duration::from_secs(seconds));
    }
    Ok(settings)
}

/// What a run leaves out.
#[derive(Default)]
struct LeftOut {
    /// The seed that draws among the expensive cases.
    seed: Option<u64>,
    /// The targets of which it draws, beside derived ones.
    drawn: String,
    /// The cases that passed before, with their targets.
    done: BTreeSet<String>,
}

impl LeftOut {
    fn find() -> Result<Self, String> {
        let done = match std::env::var_os("IDEM_DONE").map(PathBuf::from) {
            Some(file) => std::fs::read_to_string(&file)
                .map_err(|error| format!("IDEM_DONE: {}: {error}", file.display()))?,
            None => String::new(),
        };
        Ok(Self {
            seed: number("IDEM_DRAW")?,
            drawn: std::env::var("IDEM_DRAWN").unwrap_or_default(),
            done: done.lines().map(str::to_owned).collect(),
        })
    }

    /// Returns why a case of this target is left out.
    fn reason(&self, target: &str, is_derived: bool, case: &Case) -> Option<String> {
        let name = case.full_name();
        if self.done.contains(&format!("{target}::{name}")) {
            return Some("it passed before (IDEM_DONE)".to_owned());
        }
        let is_drawn_from = case.expensive && (is_derived || is_among(target, &self.drawn));
        let seed = self.seed.filter(|_| is_drawn_from)?;
        (!drawn(seed, target, &name)).then(|| format!("not drawn by seed {seed} (IDEM_DRAW)"))
    }
}

/// Returns the number in an environment variable.
fn number(variable: &str) -> Result<Option<u64>, String> {
    let Ok(text) = std::env::var(variable) else {
        return Ok(None);
    };
    let number = text.parse().map(Some);
    number.map_err(|_| format!("{variable} is `{text}`; it must be a number"))
}

/// Returns whether names separated by commas contain this one, or a prefix of it and `*`.
fn is_among(name: &str, names: &str) -> bool {
    let mut names = names.split(',').map(str::trim);
    names.any(|wanted| match wanted.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == wanted,
    })
}

/// Returns whether nextest runs this program: nextest knows ignored cases only from the list, and
/// treats a case that ignores itself as passed.
fn under_nextest() -> bool {
    std::env::var_os("NEXTEST").is_some()
}

/// The cases of one target.
struct Suite {
    name: String,
    found: Found,
    product: Option<Product>,
    broken: Option<String>,
    own_cases: &'static [Case],
    only: Option<Promise>,
    is_derived: bool,
    left_out: Arc<LeftOut>,
    tally: Tally,
    shortest_lease: OnceLock<Duration>,
}

impl Suite {
    async fn find(target: &Target, left_out: &Arc<LeftOut>) -> Self {
        let found = target.find().await;
        let product = match &found {
            Ok(harness) => Some(harness.product().await.map_err(|error| error.to_string())),
            Err(_) => None,
        };
        let (product, mut broken) = match product {
            None => (None, None),
            Some(Ok(product)) => (Some(product), None),
            Some(Err(error)) => (None, Some(error)),
        };
        if let Ok(harness) = &found
            && harness.name() != target.name()
        {
            broken = Some(format!("the harness is named `{}`", harness.name()));
        }
        Self {
            name: target.name().to_owned(),
            found,
            product,
            broken,
            own_cases: target.own_cases,
            only: target.only,
            is_derived: target.is_derived,
            left_out: Arc::clone(left_out),
            tally: Tally::default(),
            shortest_lease: OnceLock::new(),
        }
    }

    /// Returns a lease that ends soon, but not before a write on this server is answered; zero where
    /// the profile's is one.
    fn shortest_lease(&self, harness: &dyn Harness) -> Duration {
        let measured = || match harness.profile().measures_lease() {
            true => measured(harness).unwrap_or(LONGEST).min(LONGEST),
            false => Duration::ZERO,
        };
        *self.shortest_lease.get_or_init(measured)
    }

    /// Returns how many cases run at a time, if its profile says so.
    fn slots(&self) -> Option<usize> {
        let per_core = self.found.as_ref().ok()?.profile().slots_per_core()?;
        Some(per_core * available_parallelism().map_or(1, usize::from))
    }

    fn is_required(&self) -> bool {
        let required = std::env::var("IDEM_REQUIRE").unwrap_or_default();
        is_among(&self.name, &required)
    }

    fn trials(self: &Arc<Self>, arguments: &Arguments, settings: &Settings) -> Vec<Trial> {
        if !arguments.list && !arguments.exact {
            self.announce();
        }
        let one_by_one = arguments.list || arguments.ignored || under_nextest();
        let case_trial = |case: &'static Case| {
            let name = format!("{}::{}", self.name, case.full_name());
            let reason = self.reason_to_ignore(case);
            let ignored = one_by_one && reason.is_some();
            let run = self.runner(case, reason, settings);
            Trial::ignorable_test(name, run).with_ignored_flag(ignored)
        };
        let mut trials: Vec<_> = self.fatal().into_iter().collect();
        let is_wanted = |case: &&Case| {
            self.only
                .is_none_or(|promise| case.needs.contains(&promise))
        };
        let mut cases: Vec<_> = cases().filter(is_wanted).chain(self.own_cases).collect();
        // Those that take long first, so that none of them is the last one.
        cases.sort_by_key(|case| !case.expensive);
        trials.extend(cases.into_iter().map(case_trial));
        let selected = trials
            .iter()
            .filter(|trial| !arguments.is_filtered_out(trial));
        let selected = selected.count() as u64;
        self.tally.selected.store(selected, Ordering::Relaxed);
        trials
    }

    /// Prints one line about what runs, or why nothing does.
    fn announce(&self) {
        match (&self.found, &self.product) {
            (Err(missing), _) => eprintln!("{}: ignored, {missing}", self.name),
            (_, Some(Product { product, version })) => {
                eprintln!("{}: {product} {version}", self.name);
            }
            (Ok(_), None) => eprintln!("{}: does not tell what it is", self.name),
        }
    }

    /// Returns a failing trial for an error of the whole target.
    fn fatal(self: &Arc<Self>) -> Option<Trial> {
        let (name, reason) = match (&self.found, &self.broken) {
            (Err(missing), _) if self.is_required() => ("server_is_available", missing.to_string()),
            (Ok(_), Some(error)) => ("tells_its_name_and_product", error.clone()),
            _ => return None,
        };
        let suite = Arc::clone(self);
        Some(Trial::test(format!("{}::{name}", self.name), move || {
            suite.tally.fail(name, &reason);
            suite.end_case();
            Err(reason.into())
        }))
    }

    fn reason_to_ignore(&self, case: &Case) -> Option<String> {
        match &self.found {
            Err(missing) => Some(missing.to_string()),
            Ok(harness) => {
                let lacks = case.lacks(&harness.profile()).map(Promise::reason);
                lacks.or_else(|| self.left_out.reason(&self.name, self.is_derived, case))
            }
        }
    }

    fn runner(
        self: &Arc<Self>,
        case: &'static Case,
        reason: Option<String>,
        settings: &Settings,
    ) -> impl FnOnce() -> Result<Completion, Failed> + Send + 'static {
        let (suite, settings) = (Arc::clone(self), settings.clone());
        move || {
            let completion = match (reason, &suite.found) {
                (None, Ok(harness)) => suite.run_counted(harness, case, &settings),
                (Some(reason), _) if under_nextest() => Err(format!("ignored, {reason}").into()),
                (reason, _) => Ok(Completion::Ignored { reason }),
            };
            suite.end_case();
            completion
        }
    }

    /// Counts a case, and writes the report after the last one.
    fn end_case(&self) {
        if self.tally.end_case() && !under_nextest() {
            self.report();
        }
    }

    fn report(&self) {
        let Some(folder) = std::env::var_os("IDEM_REPORT_DIR").map(PathBuf::from) else {
            return;
        };
        let missing = self.found.as_ref().err().map(ToString::to_string);
        let row = Row::new(&self.name, &self.tally)
            .with_product(self.product.as_ref())
            .with_missing(missing);
        if let Err(error) = row.write(&folder) {
            eprintln!("{}: no report in {}: {error}", self.name, folder.display());
        }
    }

    fn run_counted(
        &self,
        harness: &Arc<dyn Harness>,
        case: &Case,
        settings: &Settings,
    ) -> Result<Completion, Failed> {
        let name = case.full_name();
        let shortest_lease = self.shortest_lease(&**harness);
        let settings = &Settings {
            shortest_lease,
            ..settings.clone()
        };
        let began = Instant::now();
        let (outcome, unfinished) = run_patiently(|| run_case(harness, case, settings));
        let mut results = self.tally.results();
        if let Outcome::NotRun(reason) = outcome {
            return Ok(Completion::ignored_with(reason));
        }
        let seconds = began.elapsed().as_secs_f64();
        results.seconds.insert(name.clone(), seconds);
        match (outcome.failure(), unfinished) {
            (None, unfinished) => {
                if let Some(first) = unfinished {
                    eprintln!("{}::{name}: slow, and passed alone: {first}", self.name);
                    results.slow.insert(name.clone());
                }
                results.passed_cases.insert(name);
                Ok(Completion::Completed)
            }
            (Some(message), _) => {
                drop(results);
                self.tally.fail(&name, message);
                Err(message.into())
            }
        }
    }
}

/// Returns twice the longest time of a claim and its completion among [`CALLERS`], once they have
/// their connections.
fn measured(harness: &dyn Harness) -> Result<Duration, BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let namespace = harness.create().await?;
        let store = harness.open(&namespace).await?;
        let mut slowest = Duration::ZERO;
        for round in 0..2 {
            let calls = (0..CALLERS).map(|caller| one(&*store, format!("{round} {caller}")));
            slowest = try_join_all(calls)
                .await?
                .into_iter()
                .max()
                .unwrap_or(slowest);
        }
        harness.destroy(&namespace).await?;
        Ok(slowest * 2)
    })
}

/// Returns how long a claim and its completion take.
async fn one(store: &dyn IdempotencyStore, id: String) -> Result<Duration, BoxError> {
    let key = Key::new("measured", "measured", id)?;
    let began = Instant::now();
    let claimed = store
        .claim(&ClaimRequest::new(key, Fingerprint::raw("measured")))
        .await?;
    let claim = claimed.acquired().ok_or("the key is not fresh")?;
    let hour = Duration::from_secs(3600);
    store
        .complete(&claim, &Response::new(200, ""), hour)
        .await?;
    Ok(began.elapsed())
}

/// Runs a case; once more, alone, if it did not finish. Returns how far it had come then.
fn run_patiently(run: impl Fn() -> Outcome) -> (Outcome, Option<String>) {
    let beside = ALONE.read().unwrap_or_else(PoisonError::into_inner);
    let outcome = run();
    drop(beside);
    let Outcome::Unfinished(first) = outcome else {
        return (outcome, None);
    };
    let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
    (run(), Some(first))
}
