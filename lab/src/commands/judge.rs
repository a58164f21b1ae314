//! `prove judge` and `prove shrink`.

use std::path::Path;
use std::process::ExitCode;

use idem_core::BoxError;

use crate::history::Calls;
use crate::judge::judge;
use crate::search::Bounds;
use crate::shrink::shrink;

/// Judges a history. Returns 0 for an accepted one, 1 for a refused one, 2 for one that is not
/// proven.
///
/// # Errors
///
/// Those of the files.
pub fn read_and_judge(path: &Path) -> Result<ExitCode, BoxError> {
    let history = Calls::read(path)?.history()?;
    let judgement = judge(&history, Bounds::default());
    println!("{}: {judgement}", history.head.cell);
    Ok(
        match (judgement.is_accepted(), judgement.refused.is_empty()) {
            (true, _) => ExitCode::SUCCESS,
            (false, false) => ExitCode::FAILURE,
            (false, true) => ExitCode::from(2),
        },
    )
}

/// Prints the fewest calls of a refused history that are still refused.
///
/// # Errors
///
/// Those of the files.
pub fn print_shrunk(path: &Path) -> Result<ExitCode, BoxError> {
    let shrunk = shrink(&Calls::read(path)?, Bounds::default())?;
    print!("{}", shrunk.to_ndjson()?);
    Ok(ExitCode::SUCCESS)
}
