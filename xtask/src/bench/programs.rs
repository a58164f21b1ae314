//! The measuring programs and benchmarks of `idem-benches`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{BenchOptions, backends, instructions};
use crate::check::RIVAL;
use crate::pool::Pool;
use crate::step::cargo;

/// A measuring program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) title: &'static str,
    pub(crate) command: Command,
    pub(crate) rows: Rows,
}

/// The destination of its rows.
#[derive(Debug)]
pub(crate) enum Rows {
    /// It writes them to a file.
    In(PathBuf),
    /// The summaries of callgrind.
    Counted,
    /// It writes pages, and no rows.
    None,
}

/// Builds the programs of [`all`], so that no server waits for a compiler.
pub(crate) fn build(options: &BenchOptions) -> Command {
    benches(options, &["build", "--release", "--quiet", "--bins"])
}

/// Builds the program of the crate `idempotent`, which declares a newer compiler than idem's but
/// builds with it, too.
pub(crate) fn build_rival(target: &Path) -> Command {
    let mut command = cargo(&["build", "--release", "--quiet", "--ignore-rust-version"]);
    command.args(["--locked", "--manifest-path", RIVAL]);
    command.arg("--target-dir").arg(target);
    command
}

/// Load generators that some distributions do not ship with the server.
const GENERATORS: [(&str, &str); 3] = [
    ("redis", "redis-tools"),
    ("valkey", "redis-tools"),
    ("mariadb", "mariadb-client"),
];

/// Installs missing load generators of these servers; prints a line if that fails.
pub(crate) fn set_up(servers: &[&str]) {
    for (server, package) in GENERATORS {
        if servers.contains(&server) && !idem_servers::is_installed(&[package]) {
            println!("    installing packages: {package}");
            if let Err(error) = idem_servers::install(&[package]) {
                println!("    {server} is measured without its load generator: {error}");
            }
        }
    }
}

/// Returns the programs to run, in order.
pub(crate) fn all(options: &BenchOptions, servers: &Pool, folder: &Path) -> Vec<Program> {
    let ready = backends::ready(options, servers.instances());
    let mut programs = vec![ratios(options, &ready, folder)];
    if options.path.is_empty() {
        if ready.contains(&"memory") {
            programs.push(program("memory", options, folder));
            programs.extend(counts(options, folder));
        }
        if options.draws_pages() {
            programs.push(criterion(options, &ready));
        }
    }
    programs
}

/// Measures ratios to the bare statements.
fn ratios(options: &BenchOptions, ready: &[&str], folder: &Path) -> Program {
    let mut program = program("ratios", options, folder);
    for backend in ready {
        program.command.args(["--backend", backend]);
    }
    for path in &options.path {
        program.command.args(["--path", path]);
    }
    program
}

/// A program of the crate, which writes its rows to a file.
fn program(name: &'static str, options: &BenchOptions, folder: &Path) -> Program {
    let rows = folder.join(format!("bench-{name}.json"));
    let run = ["run", "--release", "--quiet", "--bin", name, "--"];
    let mut command = benches(options, &run);
    if options.quick {
        command.arg("--quick");
    }
    command.arg("--out").arg(&rows);
    Program {
        title: name,
        command,
        rows: Rows::In(rows),
    }
}

/// Counts instructions; returns `None`, with a line on standard error, if callgrind is not
/// available.
fn counts(options: &BenchOptions, folder: &Path) -> Option<Program> {
    if !options.counts_instructions() {
        return None;
    }
    let target = folder.parent().unwrap_or(folder);
    let runner = instructions::runner(target);
    let runner = runner.inspect_err(|error| println!("    no instructions are counted: {error}"));
    let name = instructions::NAME;
    let mut command = benches(options, &["bench", "--quiet", "--bench", name]);
    command.args(["--", "--save-summary=json"]);
    command.env("GUNGRAUN_RUNNER", runner.ok()?);
    instructions::forget(target);
    Some(Program {
        title: name,
        command,
        rows: Rows::Counted,
    })
}

/// Runs criterion's benchmarks, which write pages instead of rows.
fn criterion(options: &BenchOptions, ready: &[&str]) -> Program {
    let mut command = benches(options, &["bench", "--quiet", "--bench", "paths"]);
    command.env("IDEM_BENCH_BACKENDS", ready.join(","));
    Program {
        title: "criterion",
        command,
        rows: Rows::None,
    }
}

/// Returns cargo for the crate of benchmarks. Both optimised profiles are the same then, and all
/// runs have the same features, so that nothing is built twice.
fn benches(options: &BenchOptions, arguments: &[&str]) -> Command {
    let mut command = cargo(&arguments[..1]);
    command.args(["--package", "idem-benches"]);
    if !options.no_instructions {
        command.args(["--features", instructions::NAME]);
    }
    command.args(&arguments[1..]);
    command.env("CARGO_PROFILE_BENCH_DEBUG", "false");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_impression_has_neither_pages_nor_counts() {
        let quick = BenchOptions {
            quick: true,
            ..BenchOptions::default()
        };
        assert!(!quick.draws_pages() && !quick.counts_instructions());
        let full = BenchOptions::default();
        assert!(full.draws_pages() && full.counts_instructions());
    }
}
