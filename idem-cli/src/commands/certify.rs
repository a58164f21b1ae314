//! `idem certify`: the conformance suite against the operator's own server.

mod harness;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;
use idem_conformance::{Case, Harness, Outcome, Settings, Target, cases, run_case, worker};
use serde_json::json;

use self::harness::{NAME, Operators};
use crate::args::{Cli, StoreArgs};
use crate::confirm::confirm;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Output, complain};
use crate::{text, when};

/// Marks the process that runs the suite. It has the store in its environment, so that the workers
/// that the suite starts have it, too.
const MARK: &str = "IDEM_CERTIFY_RUNS";

/// The options of `certify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs only the cases whose name contains this, such as `law05`.
    filter: Option<String>,

    /// How many cases run at a time.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,

    /// The seed of all random numbers, as a failed case prints it.
    #[arg(long)]
    seed: Option<u64>,

    /// Does not ask for a confirmation.
    #[arg(long, short)]
    yes: bool,
}

/// Does the work of a worker, if the suite started this process as one.
pub(crate) fn serve() -> Option<ExitCode> {
    let find = || async {
        let cli = Cli::try_parse_from(["idem", "verify"]);
        let cli = cli.map_err(|_| idem_conformance::Missing::new("no store in the environment"))?;
        let operators = Operators::open(&cli.store).await;
        operators.map_err(|failure| idem_conformance::Missing::new(failure.to_string()))
    };
    worker::serve(&[Target::new(NAME, find)])
}

pub(crate) async fn run(args: &StoreArgs, options: &Options, output: Output) -> Result<Exit> {
    let place = args.url()?;
    if std::env::var_os(MARK).is_none() {
        let question = format!(
            "Run the suite on {place}? It makes tables of its own, puts load on the server for minutes, and \
             removes the tables."
        );
        confirm(&question, options.yes)?;
        return run_again(args);
    }
    let harness = Operators::open(args).await?;
    let settings = options
        .seed
        .map_or_else(Settings::new, |seed| Settings::new().with_seed(seed));
    let wanted = options.filter.as_deref().unwrap_or_default();
    let chosen: Vec<_> = cases()
        .filter(|case| case.full_name().contains(wanted))
        .collect();
    if chosen.is_empty() {
        return Err(Failure::usage(format!(
            "no case has a name with {}",
            text::plain(wanted)
        )));
    }
    output.line(format!(
        "{place}: {} cases, {} at a time, seed {}",
        chosen.len(),
        options.threads,
        settings.seed
    ))?;
    let harness: Arc<dyn Harness> = Arc::new(harness);
    let began = Instant::now();
    let threads = usize::from(options.threads);
    // The cases have runtimes of their own.
    let outcomes = tokio::task::spawn_blocking(move || all(&harness, &settings, &chosen, threads));
    let outcomes = outcomes
        .await
        .map_err(|error| Failure::store(format!("the suite: {error}")))?;
    report(&outcomes, began.elapsed(), output)?;
    let failed = outcomes
        .iter()
        .any(|(_, outcome)| outcome.failure().is_some());
    Ok(if failed { Exit::Problems } else { Exit::Done })
}

/// Starts this program once more, with the store in its environment.
fn run_again(args: &StoreArgs) -> Result<Exit> {
    let own =
        |error: std::io::Error| Failure::store(format!("cannot start this program again: {error}"));
    let program = std::env::current_exe().map_err(own)?;
    let status = Command::new(program)
        .args(std::env::args_os().skip(1))
        .envs(args.variables()?)
        .env(MARK, "1")
        .status()
        .map_err(own)?;
    Ok(match status.code() {
        Some(0) => Exit::Done,
        Some(1) => Exit::Problems,
        Some(2) => Exit::Usage,
        _ => Exit::Store,
    })
}

type Outcomes = Vec<(&'static Case, Outcome)>;

/// Runs the cases, several at a time. Says of each that fails at once.
fn all(
    harness: &Arc<dyn Harness>,
    settings: &Settings,
    chosen: &[&'static Case],
    threads: usize,
) -> Outcomes {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = run_case(harness, case, settings);
            if let Some(message) = outcome.failure() {
                let _ = complain(&format!(
                    "FAILED {}: {}",
                    case.full_name(),
                    text::lines(message)
                ));
            }
            outcomes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((*case, outcome));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(case, _)| case.full_name());
    outcomes
}

fn report(outcomes: &Outcomes, took: Duration, output: Output) -> Result<()> {
    let mut laws: BTreeMap<u8, [u64; 3]> = BTreeMap::new();
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for (case, outcome) in outcomes {
        let counts = laws.entry(case.law).or_default();
        let (index, name, why) = match outcome {
            Outcome::Passed => (0, "passed", None),
            Outcome::Unfinished(message) | Outcome::Failed(message) => {
                (1, "failed", Some(message.clone()))
            }
            Outcome::NotRun(reason) => {
                *reasons.entry(reason.clone()).or_default() += 1;
                (2, "ignored", Some(reason.clone()))
            }
        };
        if let Some(count) = counts.get_mut(index) {
            *count += 1;
        }
        output.json(&json!({ "case": case.full_name(), "outcome": name, "why": why }))?;
    }
    let sum = |index: usize| -> u64 { laws.values().filter_map(|counts| counts.get(index)).sum() };
    let (passed, failed, ignored) = (sum(0), sum(1), sum(2));
    output.json(&json!({
        "passed": passed, "failed": failed, "ignored": ignored, "seconds": took.as_secs_f64(),
    }))?;
    let row = |(law, counts): (&u8, &[u64; 3])| {
        let mut row = vec![format!("law {law}")];
        row.extend(counts.iter().map(u64::to_string));
        row
    };
    let rows: Vec<_> = laws.iter().map(row).collect();
    output.table(&["LAW", "#PASSED", "#FAILED", "#IGNORED"], &rows)?;
    for (reason, count) in &reasons {
        output.line(format!("ignored {count}: {reason}"))?;
    }
    output.line(format!(
        "{passed} passed, {failed} failed, {ignored} ignored, in {}",
        when::shown(took)
    ))
}
