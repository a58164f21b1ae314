//! Every mutant is rejected, by the cases made for it: one trial for each.
//!
//! With `IDEM_MUTANTS=1` every mutant meets all cases, and a table says how many reject each.

mod expected;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idem_conformance::mutants::{Bug, MutantHarness, MutantStore};
use idem_conformance::remote::{Lie, RemoteHarness};
use idem_conformance::{Harness, Missing, Settings, Target, run_all, worker};
use libtest_mimic::{Arguments, Failed, Trial};

use expected::{EXPECTED, REMOTE};

/// Mutants that run at a time, and cases of each.
const MUTANTS: usize = 4;
const CASES: usize = 6;

/// Time-out and deadline for stores that are known to be wrong.
const MAX_WAIT: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(12);

/// Name, number of rejecting cases, expected cases.
type Row = (String, usize, String);
type Table = Arc<Mutex<Vec<Row>>>;

/// The cases to run against a mutant.
#[derive(Clone, Copy)]
enum Cases {
    All,
    Expected,
}

/// Runs the cases, and returns those that reject the store.
fn rejected_by(harness: impl Harness, which: Cases, expected: &[&str]) -> BTreeSet<String> {
    let harness: Arc<dyn Harness> = Arc::new(harness);
    let settings = Settings::new().with_deadline(DEADLINE);
    let is_run = |case: &str| match which {
        Cases::All => true,
        Cases::Expected => expected.contains(&case),
    };
    let verdicts = run_all(&harness, &settings, CASES, is_run).into_iter();
    verdicts
        .filter(|verdict| verdict.outcome.failure().is_some())
        .map(|verdict| verdict.case)
        .collect()
}

fn judge(
    name: String,
    by: &BTreeSet<String>,
    expected: &[&str],
    table: &Table,
) -> Result<(), Failed> {
    for case in expected {
        if !by.contains(*case) {
            return Err(format!("not rejected by {case}, but by {by:?}").into());
        }
    }
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    table.push((name, by.len(), expected.join(", ")));
    Ok(())
}

fn remote(bug: Bug, lie: Lie) -> Result<impl Harness, Failed> {
    let server = RemoteHarness::start(move || MutantStore::new(bug))?;
    Ok(server.with_lie(lie).with_max_wait(MAX_WAIT))
}

fn trials(which: Cases, table: &Table) -> Vec<Trial> {
    let mut trials = vec![Trial::test(
        "without_a_bug::every_case_passes",
        every_case_passes,
    )];
    trials.push(Trial::test(
        "every_bug::has_its_expected_case",
        every_bug_is_expected,
    ));
    for (bug, expected) in EXPECTED {
        let (name, table) = (format!("{bug:?}"), Arc::clone(table));
        trials.push(Trial::test(format!("rejected::{name}"), move || {
            let rejected = rejected_by(MutantHarness::new(*bug), which, expected);
            judge(name, &rejected, expected, &table)
        }));
    }
    for (lie, bug, expected) in REMOTE {
        let (name, table) = (format!("remote_{lie:?}_{bug:?}"), Arc::clone(table));
        trials.push(Trial::test(format!("rejected::{name}"), move || {
            let rejected = rejected_by(remote(*bug, *lie)?, which, expected);
            judge(name, &rejected, expected, &table)
        }));
    }
    trials
}

fn every_case_passes() -> Result<(), Failed> {
    let harness: Arc<dyn Harness> = Arc::new(MutantHarness::new(Bug::None));
    for verdict in run_all(&harness, &Settings::new(), CASES, |_| true) {
        if let Some(reason) = verdict.outcome.failure() {
            return Err(format!("{}: {reason}", verdict.case).into());
        }
    }
    Ok(())
}

fn every_bug_is_expected() -> Result<(), Failed> {
    let expected = |bug: &&Bug| EXPECTED.iter().any(|(known, _)| known == *bug);
    match Bug::ALL.iter().find(|bug| !expected(bug)) {
        None => Ok(()),
        Some(bug) => Err(format!("no case is named for {bug:?}").into()),
    }
}

fn print(table: &Table) {
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    table.sort();
    println!("{:<34} {:>5}  among them", "mutant", "cases");
    for (name, cases, expected) in table.iter() {
        println!("{name:<34} {cases:>5}  {expected}");
    }
}

/// With this variable, each mutant meets every case, and a table says how many reject it.
const ALL_CASES: &str = "IDEM_MUTANTS";

fn main() -> ExitCode {
    let target = Target::new("remote", || async {
        RemoteHarness::start(|| MutantStore::new(Bug::None))
            .map_err(|error| Missing::new(error.to_string()))
    });
    let volatile = Target::new("volatile", async || Ok(MutantHarness::new(Bug::Volatile)));
    if let Some(code) = worker::serve(&[target, volatile]) {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(MUTANTS));
    let table = Table::default();
    let all = std::env::var_os(ALL_CASES).is_some();
    let which = if all { Cases::All } else { Cases::Expected };
    let is_wanted = all || std::env::var_os("IDEM_ALL").is_some();
    if !is_wanted {
        eprintln!("ignored: mutants run where IDEM_ALL=1 or {ALL_CASES}=1 is set");
    }
    let trials = trials(which, &table).into_iter();
    let trials = trials.map(|trial| trial.with_ignored_flag(!is_wanted));
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if all && !arguments.list {
        print(&table);
    }
    conclusion.exit_code()
}
