//! `idem completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Exit, Result};
use crate::output;

/// The options of `completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(options: &Options) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "idem", &mut script);
    output::write(&script)?;
    Ok(Exit::Done)
}
