//! `prove model`: explores the configurations of the models.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::model::{Configuration, configurations, run};
use clap::Args;
use idem_core::BoxError;

/// Explores every interleaving of a few callers, with the specification beside each.
#[derive(Debug, Args)]
pub struct Model {
    /// Only configurations whose names begin with this
    name: Option<String>,
    /// Prints the names and what has to come of each
    #[arg(long)]
    list: bool,
    /// Writes what came of each into this file
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

impl Model {
    /// Explores the configurations whose names begin with this.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            list: false,
            results: None,
        }
    }
}

/// Returns 0 when everything came out as expected, 1 for another contradiction or none, 2 for a
/// search that was cut short or left out a transition.
///
/// # Errors
///
/// No configuration has the name; the file cannot be written.
pub fn explore(arguments: &Model) -> Result<ExitCode, BoxError> {
    let name = arguments.name.as_deref().unwrap_or_default();
    let mut chosen: Vec<Configuration> = configurations();
    chosen.retain(|it| it.name().starts_with(name));
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
    for configuration in &chosen {
        let outcome = run(configuration);
        println!("{outcome}");
        if !outcome.is_expected {
            outcome
                .path
                .iter()
                .for_each(|action| println!("    {action}"));
        }
        outcomes.push(outcome);
    }
    if let Some(file) = &arguments.results {
        std::fs::write(file, serde_json::to_string_pretty(&outcomes)? + "\n")?;
    }
    let wrong = outcomes.iter().filter(|it| !it.is_expected);
    Ok(
        match wrong.map(|it| it.is_undecided).reduce(|a, b| a && b) {
            None => ExitCode::SUCCESS,
            Some(true) => ExitCode::from(2),
            Some(false) => ExitCode::FAILURE,
        },
    )
}
