//! Set-up, servers, tests and checks: every command for people and CI. `cargo xtask help` lists
//! them.

mod api;
mod bench;
mod check;
mod duckdb;
mod machine;
mod page;
mod pool;
mod progress;
mod prove;
mod row;
mod servers;
mod step;
mod suites;
mod test;
mod tools;
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
    /// Installs missing programs, starts private servers, runs every test, and the suite on every
    /// backend.
    Test(TestOptions),
    /// Measures the stores beside the bare statements on private servers with durable settings: one
    /// table of ratios.
    Bench(bench::BenchOptions),
    /// Format, clippy for each set of features, documentation, dependencies, packages, public API.
    Check(check::CheckOptions),
    /// Draws the dashboard of idem-core with figures of its example: `docs/dashboard.svg`.
    Dashboard,
    /// Injects faults and judges what callers saw: `ci`, `cell`, `campaign`, `judge` and more, as in
    /// `prove/README.md`.
    Prove {
        /// The arguments of `prove`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
}

/// The tests to run, and the destination of the result.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct TestOptions {
    /// Writes the table at the end as JSON: an array of {backend, product, version, passed,
    /// ignored, failed}.
    #[arg(long, value_name = "FILE", value_parser = |file: &str| std::path::absolute(file))]
    json: Option<PathBuf>,
    /// Writes the table into `docs/evidence.md`.
    #[arg(long)]
    docs: bool,
    /// Runs only the suites of these backends; `hybrid-*` means every name that begins so.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    backend: Vec<String>,
    /// Runs only the suites' cases whose names contain this.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Also runs each state of the cache in front of a server. Default: in front of SQLite, and a
    /// healthy cache in front of every database.
    #[arg(long)]
    all: bool,
    /// Leaves out the test of the container path, and installs no container engine for it.
    #[arg(long)]
    no_containers: bool,
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
        Command::Check(options) => check::run(&options),
        Command::Dashboard => step::run("dashboard", &mut bench::charts("dashboard")),
        Command::Prove { arguments } => return prove::run(&arguments).map(ExitCode::from),
    }?;
    Ok(match succeeds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
