//! Set-up, servers, tests and checks: every command for people and CI. `cargo xtask help` lists
//! them.

#[cfg(feature = "api")]
mod api;
mod bench;
mod budgets;
mod check;
mod ci;
mod clients;
mod duckdb;
mod families;
mod ledger;
mod machine;
mod page;
mod pool;
mod programs;
mod prove;
mod row;
mod servers;
mod step;
mod suites;
mod test;
mod tools;
mod touched;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An error of a command, which `main` prints once on standard error.
pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The commands of the idem workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version, disable_help_subcommand = false)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Private servers that stay up, for working with one crate.
    #[command(subcommand)]
    Servers(servers::Command),
    /// Starts private servers and runs the tests that everybody needs: those of the crates, and the
    /// suite's plain rows on memory, SQLite, PostgreSQL, MariaDB, Redis and the hybrid.
    Test(TestOptions),
    /// Runs what a landing has to pass, drawing the dear cases of what it does not touch.
    Ci,
    /// Runs every check, and every case that the ledger lacks for the code as it is.
    Release(ci::ReleaseOptions),
    /// Measures the stores beside the bare statements on private servers with durable settings: one
    /// table of ratios.
    Bench(bench::BenchOptions),
    /// Format, budgets, clippy for each set of features, documentation, dependencies, packages,
    /// public API.
    Check(check::CheckOptions),
    /// Compares the public API of each published crate with its text.
    #[cfg(feature = "api")]
    #[command(hide = true)]
    Api {
        /// Writes the text
        #[arg(long)]
        accept: bool,
    },
    /// Injects faults and judges what callers saw: `ci`, `cell`, `campaign`, `judge` and more, as in
    /// `lab/README.md`.
    Prove {
        /// The arguments of `prove`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
}

/// The tests to run, and the destination of the result.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct TestOptions {
    /// Adds these families with all their rows and tests: `memory`, `sqlite`, `postgres`, `mysql`,
    /// `redis`, `hybrid`, `mongo`, `dynamodb`, `duckdb`, `mssql`, or a server's name.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    backend: Vec<String>,
    /// Leaves out everything except the families that `--backend` names.
    #[arg(long)]
    only: bool,
    /// Runs every test of the workspace and every row of the suite.
    #[arg(long)]
    all: bool,
    /// Runs only the clients that people use, against a server of ours, and writes
    /// `docs/clients.md`.
    #[arg(long)]
    clients: bool,
    /// Runs only these rows of the suites; `hybrid-*` means every name that begins so.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    row: Vec<String>,
    /// Runs only the suites' cases whose names contain this.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Writes the table at the end as JSON: an array of {backend, product, version, passed,
    /// ignored, failed}.
    #[arg(long, value_name = "FILE", value_parser = |file: &str| std::path::absolute(file))]
    json: Option<PathBuf>,
    /// Writes the table into `docs/evidence.md`.
    #[arg(long)]
    docs: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error}");
            let causes = std::iter::successors(error.source(), |cause| cause.source());
            causes.for_each(|cause| eprintln!("  because: {cause}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let command = Arguments::parse().command;
    // Started in a subfolder, too, every command is about the whole workspace.
    if let Some(package) = std::env::var_os("CARGO_MANIFEST_DIR")
        && let Some(root) = Path::new(&package).parent()
    {
        std::env::set_current_dir(root).map_err(|error| format!("{}: {error}", root.display()))?;
    }
    let succeeds = match command {
        Command::Servers(command) => servers::run(&command).map(|()| true),
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Ci => ci::run(),
        Command::Release(options) => ci::release(&options),
        Command::Check(options) => check::run(&options),
        #[cfg(feature = "api")]
        Command::Api { accept } => api::run(accept),
        Command::Prove { arguments } => return prove::run(&arguments).map(ExitCode::from),
    }?;
    Ok(match succeeds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
