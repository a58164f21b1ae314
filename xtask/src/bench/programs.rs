//! The measuring programs and benchmarks of `idem-benches`, and the servers that they measure:
//! private ones, with production settings.

use std::path::{Path, PathBuf};
use std::process::Command;

use idem_bench_rows::Row;
use idem_servers::{Durability, Finder, Options, Source};

use crate::bench::{BenchOptions, report};
use crate::check::RIVAL;
use crate::pool::Pool;
use crate::step::{self, cargo};
use crate::{Result, tools};

/// Builds the programs, so that no server waits for a compiler.
pub(crate) fn build(options: &BenchOptions) -> Command {
    benches(options, "build --release --quiet --bins")
}

/// Builds the program of the crate `idempotent`, which declares a newer compiler than idem's but
/// builds with it, too.
pub(crate) fn build_rival(target: &Path) -> Command {
    let mut command = cargo("build --release --quiet --ignore-rust-version --locked");
    command.args(["--manifest-path", RIVAL]);
    command.arg("--target-dir").arg(target);
    command
}

/// Starts the servers of the wanted backends. The pool records missing servers.
///
/// # Errors
///
/// An error when a server exists and does not work.
pub(crate) fn servers(options: &BenchOptions) -> Result<Pool> {
    println!("==> servers with durable settings");
    let names = options.servers();
    if names.is_empty() {
        // Without names a pool would start all servers.
        return Ok(Pool::default());
    }
    let mut sources = vec![Source::Local, Source::Packages];
    if options.from_environment {
        sources.insert(0, Source::Env);
    }
    let finder = Finder::new().with_sources(&sources);
    let durable = Options::new().with_durability(Durability::Durable);
    Pool::start(&names, &finder, &durable, &[])
}

/// The programs of a run, and their results.
pub(crate) struct Programs<'r> {
    options: &'r BenchOptions,
    servers: &'r Pool,
    target: &'r Path,
    pub(crate) rows: Vec<Row>,
    /// Those that failed.
    pub(crate) failed: Vec<&'static str>,
}

impl<'r> Programs<'r> {
    pub(crate) fn new(options: &'r BenchOptions, servers: &'r Pool, target: &'r Path) -> Self {
        Self {
            options,
            servers,
            target,
            rows: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Runs all.
    pub(crate) fn run_all(&mut self) -> Result {
        let options = self.options;
        let ready = options.ready(&self.servers.names());
        let backends = ready.iter().flat_map(|backend| ["--backend", backend]);
        let paths = options.path.iter().flat_map(|path| ["--path", path]);
        let arguments: Vec<_> = backends.chain(paths).collect();
        self.program("ratios", &arguments)?;
        if !options.path.is_empty() {
            return Ok(());
        }
        if ready.contains(&"memory") {
            self.program("memory", &[])?;
        }
        if options.draws_pages() {
            let mut command = benches(options, "bench --quiet --bench paths");
            command.env("IDEM_BENCH_BACKENDS", ready.join(","));
            self.run("criterion", command)?;
        }
        Ok(())
    }

    /// Runs a program that writes its rows to a file, and adds them, even if it fails.
    fn program(&mut self, name: &'static str, arguments: &[&str]) -> Result {
        let file = self.target.join(format!("idem/bench-{name}.json"));
        // Removes the rows of an earlier run.
        let _ = std::fs::remove_file(&file);
        let mut command = benches(self.options, "run --release --quiet");
        command.args(["--bin", name, "--"]).args(arguments);
        if self.options.quick {
            command.arg("--quick");
        }
        command.arg("--out").arg(&file);
        self.run(name, command)?;
        if file.exists() {
            let written: idem_bench_rows::Report = report::read(&file)?;
            self.rows.extend(written.rows);
        }
        Ok(())
    }

    /// Draws a flamegraph of the path for each backend whose server runs. Returns whether all
    /// succeeded.
    ///
    /// # Errors
    ///
    /// An error when a tool is not available.
    pub(crate) fn profile(&self, path: &str) -> Result<bool> {
        let flamegraph = flamegraph(self.target)?;
        let mut drawn = true;
        for backend in self.options.ready(&self.servers.names()) {
            let name = format!("flame-{backend}-{path}");
            let picture = self.target.join("idem").join(format!("{name}.svg"));
            let data = picture.with_extension("perf");
            // The kernel's processor clock: virtual machines have no counters. The frequency is
            // not round, so that it does not coincide with periodic work.
            let record = format!(
                "record -q -e cpu-clock -F 499 --call-graph dwarf,16384 -o {}",
                data.display()
            );
            let mut command = Command::new(&flamegraph);
            command.args(["--no-inline", "--min-width", "0.2", "--cmd", &record]);
            command.args(["--title", &format!("{backend}: {path}")]);
            command.arg("--output").arg(&picture).arg("--");
            command.arg(self.target.join("release/ratios"));
            command.args(["--backend", backend, "--path", path, "--quick"]);
            drawn &= step::run(&name, command.envs(self.servers.variables()))?;
            // The file does not exist if nothing was recorded.
            let _ = std::fs::remove_file(data);
            println!("{}", picture.display());
        }
        Ok(drawn)
    }

    fn run(&mut self, title: &'static str, mut command: Command) -> Result {
        if !step::run(title, command.envs(self.servers.variables()))? {
            self.failed.push(title);
        }
        Ok(())
    }
}

/// Returns cargo for the crate of benchmarks. Both optimised profiles are the same then, and all
/// runs have the same features, so that nothing is built twice.
fn benches(options: &BenchOptions, arguments: &str) -> Command {
    let mut command = cargo(arguments);
    command.args(["--package", "idem-benches", "--no-default-features"]);
    command.args(["--features", &options.features()]);
    command.env("CARGO_PROFILE_BENCH_DEBUG", "false");
    command
}

/// Returns the program `flamegraph`, and installs it, with the `perf` that it runs, if it is
/// missing.
fn flamegraph(target: &Path) -> Result<PathBuf> {
    if !step::has("perf", &["--version"]) {
        tools::packages(&["linux-perf"])?;
    }
    tools::crate_program("flamegraph", None, target)
}
