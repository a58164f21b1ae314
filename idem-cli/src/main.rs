#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(all(
        feature = "mongo",
        feature = "mssql",
        feature = "mysql",
        feature = "postgres",
        feature = "redis",
        feature = "sqlite"
    )),
    allow(dead_code, reason = "each kind of store uses a part")
)]

mod args;
mod backend;
mod commands;
mod confirm;
mod doctor;
mod failure;
mod keys;
mod masked;
mod output;
mod text;
mod url;
mod when;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::failure::{Exit, Failure};

fn main() -> ExitCode {
    #[cfg(feature = "certify")]
    if let Some(code) = commands::certify::serve() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let exit = match run(cli) {
        Ok(exit) => exit,
        Err(failure) => {
            // Nothing is left to do when stderr is closed, too.
            let _ = output::complain(&failure.to_string());
            failure.exit()
        }
    };
    exit.into()
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::store(format!("no runtime: {error}")))?;
    let done = runtime.block_on(commands::run(cli));
    // A connection that hangs must not keep the program.
    runtime.shutdown_background();
    done
}

/// Prints help or a usage error. clap quotes arguments, and a misplaced URL may hold a password.
fn usage(error: &clap::Error) -> ExitCode {
    let plain = error.render().to_string();
    let shown = url::without_secrets(&plain, std::env::args());
    if shown == plain {
        let _ = error.print();
    } else {
        let _ = output::complain(shown.trim_end().trim_start_matches("error: "));
    }
    if error.use_stderr() {
        Exit::Usage.into()
    } else {
        Exit::Done.into()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_debug_form_of_the_arguments_shows_no_password() {
        let line = ["idem", "--store", "postgres://me:s3cret@db/idem", "stats"];
        let cli = Cli::try_parse_from(line).unwrap();
        let shown = format!("{cli:?}");
        assert!(
            shown.contains("db/idem") && !shown.contains("s3cret"),
            "{shown}"
        );
    }
}
