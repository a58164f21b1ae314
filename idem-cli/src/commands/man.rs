//! `idem man`.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::args::Cli;
use crate::failure::{Exit, Failure, Result};
use crate::output;

/// The options of `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Writes a page for the program and each command into this folder, instead of printing one.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<Exit> {
    let Some(folder) = &options.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        output::write(&page)?;
        return Ok(Exit::Done);
    };
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
    Ok(Exit::Done)
}
