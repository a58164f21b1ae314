//! [`main`]: the test program of a backend.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::report::{Row, Tally};
use crate::target::Found;
use crate::{Case, Harness, Outcome, Product, Promise, Settings, Target, cases, run_case, worker};

/// Cases mostly wait, so more of them run at a time than there are cores.
const THREADS: usize = 8;

/// Runs every case against every target, as `cargo test` and nextest expect; it is the `main` of a
/// test target with `harness = false`.
///
/// Environment: `IDEM_BACKENDS` (the only targets to look for, separated by commas; `hybrid-*` means
/// all with that prefix), `IDEM_REQUIRE` (targets whose absence is a failure, written alike),
/// `IDEM_SEED` (a number), `IDEM_DEADLINE` (how long a case may take, in seconds; default: 120),
/// `IDEM_REPORT_DIR` (the folder for `<backend>.json`).
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
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    let settings = match settings() {
        Ok(settings) => settings,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let wanted = std::env::var("IDEM_BACKENDS").ok();
    let suites: Vec<_> = targets
        .iter()
        .filter(|target| {
            wanted
                .as_deref()
                .is_none_or(|wanted| is_among(target.name(), wanted))
        })
        .map(|target| Arc::new(runtime.block_on(Suite::find(target))))
        .collect();
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
    tally: Tally,
}

impl Suite {
    async fn find(target: &Target) -> Self {
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
            tally: Tally::default(),
        }
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
        let cases = cases().filter(is_wanted).chain(self.own_cases);
        trials.extend(cases.map(case_trial));
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
            Ok(harness) => case.lacks(&harness.profile()).map(Promise::reason),
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
                (None, Ok(harness)) => run_counted(harness, case, &settings, &suite.tally),
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
}

fn run_counted(
    harness: &Arc<dyn Harness>,
    case: &Case,
    settings: &Settings,
    tally: &Tally,
) -> Result<Completion, Failed> {
    match run_case(harness, case, settings) {
        Outcome::Passed => {
            tally.passed.fetch_add(1, Ordering::Relaxed);
            Ok(Completion::Completed)
        }
        Outcome::NotPromised(promise) => Ok(Completion::ignored_with(promise.reason())),
        Outcome::Failed(message) => {
            tally.fail(&case.full_name(), &message);
            Err(message.into())
        }
    }
}
