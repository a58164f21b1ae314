//! The report `docs/proof.md`: what was tried, what it showed, and what was not run.
//!
//! It is made of committed files only, so that anybody can make it again.

mod guarantees;
mod page;

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use idem_core::BoxError;

pub use guarantees::{Sentence, sentences};
use page::page;

/// The page, in the workspace.
const PAGE: &str = "docs/proof.md";
/// The ledger of campaigns, in the workspace.
const LEDGER: &str = "lab/results/ledger.ndjson";
/// The outcomes of the models, in the workspace.
const MODELS: &str = "lab/results/models.json";
/// When each patch was last caught, in the workspace.
const CAUGHT: &str = "lab/results/caught.json";

/// The arguments of `prove report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Writes nothing, and fails if the page is not what it would write
    #[arg(long)]
    pub check: bool,
}

/// Writes the page, or compares it.
///
/// # Errors
///
/// Those of the files; a sentence of a Guarantees table that nothing tries; a page that is not up
/// to date.
pub fn run(arguments: &ReportArguments) -> Result<ExitCode, BoxError> {
    let root = std::env::current_dir()?;
    let text = page(&root)?;
    let file = root.join(PAGE);
    if !arguments.check {
        std::fs::write(&file, text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if std::fs::read_to_string(&file)? != text {
        return Err(format!("{PAGE} is not up to date: run `cargo xtask prove report`").into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a file of results; the default where there is none yet.
///
/// # Errors
///
/// The file cannot be read.
pub fn read<T: serde::de::DeserializeOwned + Default>(file: &Path) -> Result<T, BoxError> {
    match std::fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice(&text)
            .map_err(|error| format!("{}: {error}", file.display()))?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(format!("{}: {error}", file.display()).into()),
    }
}
