//! `prove judge` and `prove shrink`.

use std::path::Path;
use std::process::ExitCode;

use idem_core::BoxError;

use crate::history::Calls;
use crate::judge::judge;
use crate::search::Bounds;
use crate::shrink::shrink;
use crate::timeline;

/// Judges a history. Returns 0 for an accepted one, 1 for a refused one, 2 for one that is not
/// proven. Draws the calls into the file `html`.
///
/// # Errors
///
/// Those of the files.
pub fn read_and_judge(path: &Path, html: Option<&Path>) -> Result<ExitCode, BoxError> {
    let history = Calls::read(path)?.history()?;
    let judgement = judge(&history, Bounds::default());
    if let Some(file) = html {
        let is_shown = |key: &String| {
            let (refused, undecided) = (&judgement.refused, &judgement.undecided);
            judgement.is_accepted() || refused.contains_key(key) || undecided.contains_key(key)
        };
        let keys = history.keys.iter().filter(|(key, _)| is_shown(key));
        let page = timeline::page(&history.head.cell, keys, Bounds::default());
        std::fs::write(file, page)?;
    }
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
