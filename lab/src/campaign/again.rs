//! Judges the kept histories of a campaign again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use idem_core::BoxError;

use super::ledger::write_whole;
use super::{Ledger, Row, judged, tally};
use crate::cells::{self, Ran};
use crate::history::Calls;

/// The arguments of `prove again`.
#[derive(Debug, Args)]
pub struct AgainArguments {
    /// The folder of a campaign
    pub folder: PathBuf,
    /// The ledger that has its rows, in which those are replaced that another verdict changes
    #[arg(long, value_name = "FILE")]
    pub ledger: PathBuf,
}

/// Judges every kept history of a campaign again, and prints which verdicts the present search and
/// specification change. Returns 1 when one is refused, 2 when one is not proven.
///
/// # Errors
///
/// Those of the files; a history that is not that of its row.
pub fn again(arguments: &AgainArguments) -> Result<ExitCode, BoxError> {
    let mut ledger = Ledger::read(&arguments.ledger)?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(&arguments.folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    let mut worst = 0;
    for file in files {
        let histories = file.with_extension("");
        if !histories.is_dir() {
            continue;
        }
        let text = std::fs::read(&file)?;
        let old: Row = serde_json::from_slice(&text)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        if old.sha256.is_empty() {
            // It never came so far as to be judged.
            continue;
        }
        let new = row_of(&old, &histories)?;
        if new != old {
            println!(
                "{}: {}, was {}",
                histories.display(),
                new.verdict,
                old.verdict
            );
            ledger.replace(&old, &new);
            ledger.write(&arguments.ledger)?;
            write_whole(&file, &serde_json::to_vec_pretty(&new)?)?;
        }
        worst = match (worst, new.status) {
            (1, _) | (_, 1) => 1,
            (worst, status) => worst.max(status),
        };
    }
    Ok(ExitCode::from(worst))
}

/// Returns the row with what its history shows now.
fn row_of(row: &Row, histories: &Path) -> Result<Row, BoxError> {
    if tally::hash(histories)? != row.sha256 {
        return Err(format!(
            "{}: another history than that of its row",
            histories.display()
        )
        .into());
    }
    let all = cells::all();
    let cell = all.iter().find(|cell| cell.name == row.cell);
    let cell = cell.ok_or_else(|| format!("there is no cell `{}`", row.cell))?;
    let ran = Ran::read(histories)?;
    let judgement = judged(&Calls::read(histories)?.history()?);
    Ok(row
        .clone()
        .with(&cells::verdict(cell, &ran, &judgement), &judgement))
}
