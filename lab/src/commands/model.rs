//! `prove model`: explores the configurations of the models.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::model::{Configuration, Outcome, configurations, run};
use clap::Args;
use idem_core::BoxError;

/// Explores every interleaving of a few callers, with the specification beside each.
#[derive(Debug, Args)]
pub struct Model {
    /// Only configurations whose names begin with this
    name: Option<String>,
    /// Only those that continuous integration runs
    #[arg(long)]
    small: bool,
    /// Prints the names and what has to come of each
    #[arg(long)]
    list: bool,
    /// Prints one line of JSON for each, with the steps to its contradiction
    #[arg(long)]
    json: bool,
    /// Writes what came of each into this file
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

impl Model {
    /// Explores all configurations, or those of continuous integration.
    #[must_use]
    pub fn all(small: bool) -> Self {
        Self {
            name: None,
            small,
            list: false,
            json: false,
            results: None,
        }
    }
}

/// Returns 0 when everything came out as expected, 1 for another contradiction or none, 2 for a
/// search that was cut short or left out a transition.
pub fn explore(arguments: &Model) -> Result<ExitCode, BoxError> {
    let chosen: Vec<Configuration> = configurations()
        .into_iter()
        .filter(|it| it.is_small() || !arguments.small)
        .filter(|it| {
            let name = arguments.name.as_deref();
            name.is_none_or(|name| it.name().starts_with(name))
        })
        .collect();
    if chosen.is_empty() {
        return Err("no configuration has this name; see --list".into());
    }
    if arguments.list {
        for configuration in &chosen {
            println!("{:<40} {}", configuration.name(), configuration.expected());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut outcomes = Vec::new();
    explored(&chosen, |outcome| {
        print(&outcome, arguments.json)?;
        outcomes.push(outcome);
        Ok(())
    })?;
    if let Some(file) = &arguments.results {
        std::fs::write(file, results(&outcomes)?)?;
    }
    Ok(summary(&outcomes, arguments.json))
}

/// Returns what came of each, without the steps to it.
fn results(outcomes: &[Outcome]) -> Result<String, BoxError> {
    let mut values = Vec::new();
    for outcome in outcomes {
        let mut value = serde_json::to_value(outcome)?;
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|name, _| !matches!(name.as_str(), "path" | "kinds"));
        }
        values.push(value);
    }
    Ok(serde_json::to_string_pretty(&values)? + "\n")
}

/// Explores two at a time, each on one thread, and passes the outcomes on in the order of the
/// table.
fn explored(
    chosen: &[Configuration],
    mut each: impl FnMut(Outcome) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let (sender, outcomes) = mpsc::channel();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            let (sender, next) = (sender.clone(), &next);
            let take = || {
                let at = next.fetch_add(1, Ordering::Relaxed);
                Some((at, chosen.get(at)?))
            };
            scope.spawn(move || {
                while let Some((at, configuration)) = take() {
                    if sender.send((at, run(configuration))).is_err() {
                        // An outcome could not be printed.
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut expected = 0;
        for (at, outcome) in outcomes {
            early.insert(at, outcome);
            while let Some(outcome) = early.remove(&expected) {
                expected += 1;
                each(outcome)?;
            }
        }
        Ok(())
    })
}

fn print(outcome: &Outcome, json: bool) -> Result<(), BoxError> {
    if json {
        println!("{}", serde_json::to_string(outcome)?);
        return Ok(());
    }
    println!("{outcome}");
    if !outcome.is_expected {
        for action in &outcome.path {
            println!("    {action}");
        }
    }
    Ok(())
}

fn summary(outcomes: &[Outcome], json: bool) -> ExitCode {
    let wrong: Vec<_> = outcomes.iter().filter(|it| !it.is_expected).collect();
    let undecided = wrong.iter().filter(|it| it.is_undecided).count();
    if !json {
        let states: usize = outcomes.iter().map(|it| it.states).sum();
        let seconds: f64 = outcomes.iter().map(|it| it.seconds).sum();
        println!(
            "{} configurations, {states} states, {seconds:.0} s: {} as expected, {} not, \
             {undecided} undecided",
            outcomes.len(),
            outcomes.len() - wrong.len(),
            wrong.len() - undecided,
        );
    }
    match (wrong.len() - undecided, undecided) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(2),
        (_, _) => ExitCode::FAILURE,
    }
}
