//! `cargo xtask test`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use idem_servers::{Finder, Options};

use crate::families::{self, FAMILIES, Family};
use crate::machine::Machine;
use crate::page::{self, EVIDENCE};
use crate::pool::Pool;
use crate::programs::{self, Counts, Program, THREADS, Times};
use crate::row::{Report, json, markdown, table};
use crate::step::cargo;
use crate::{Result, TestOptions, clients, duckdb, suites, tools, workspace};

/// Runs the tests. Returns whether all of them passed.
pub(crate) fn run(options: &TestOptions) -> Result<bool> {
    let begun = Instant::now();
    if options.clients {
        let mut outcome = Outcome::default();
        outcome.note("clients", clients::run(true, None)?);
        println!("{:.0} s", begun.elapsed().as_secs_f64());
        outcome.tell();
        return Ok(outcome.failed.is_empty());
    }
    let selection = Selection::of(options)?;
    let mut session = Session::prepare(&selection, selection.tests()?)?;
    let mut outcome = session.run(|program| selection.has(program), |_, _| {})?;
    if options.filter.is_none() {
        outcome.add(session.documentation(&selection)?);
        if options.all {
            for (title, mut command) in [
                ("tests without features", without_features(&PLAIN)),
                ("model check of the memory store", model_check()?),
            ] {
                outcome.add(session.counted(title, &mut command)?);
            }
            outcome.note("clients", clients::run(options.docs, None)?);
        }
    }
    drop(session);
    println!("\n{}", table(&outcome.reports));
    if let Some(file) = &options.json {
        std::fs::write(file, json(&outcome.reports)?)
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if options.docs {
        let ran = page::on(&Machine::here());
        let text = format!(
            "Run {ran}: {}.\n\n{}",
            outcome.sum(),
            markdown(&outcome.reports)
        );
        page::write(EVIDENCE, "test", &text)?;
    }
    if !options.all {
        println!(
            "Not run: rows of wrappers and drivers, servers killed on purpose, and other backends; \
             `--backend NAME` adds a family with all of that, and `--all` runs everything.\n"
        );
    }
    println!("{:.0} s", begun.elapsed().as_secs_f64());
    outcome.tell();
    Ok(outcome.failed.is_empty())
}

/// The crates that need no server: their tests also run without features.
pub(crate) const PLAIN: [&str; 6] = [
    "idem-actix",
    "idem-client",
    "idem-core",
    "idem-http",
    "idem-queue",
    "idem-webhooks",
];

/// Returns the tests of these packages without their features.
pub(crate) fn without_features(packages: &[&str]) -> Command {
    let mut command = cargo("test --no-fail-fast --lib --tests --no-default-features");
    for package in packages {
        command.args(["--package", package]);
    }
    command
}

/// Returns the exhaustive check of the memory store's interleavings.
pub(crate) fn model_check() -> Result<Command> {
    let mut model = cargo("test --package idem-core --test shuttle");
    let target = workspace::members()?.target_directory.join("shuttle");
    model.env("RUSTFLAGS", "--cfg shuttle");
    model.env("CARGO_TARGET_DIR", target);
    Ok(model)
}

/// What to build, and what of it to run.
#[derive(Debug)]
pub(crate) struct Selection {
    /// The packages and features, as arguments of cargo.
    arguments: Vec<String>,
    /// The families whose rows and tests all run.
    whole: Vec<&'static Family>,
    /// Only these families run.
    is_only: bool,
    is_all: bool,
    backends: Vec<String>,
    filter: Option<String>,
}

impl Selection {
    fn of(options: &TestOptions) -> Result<Self> {
        let families = options.backend.iter().map(|name| families::named(name));
        let mut whole: Vec<_> = families.collect::<Result<_>>()?;
        if options.only && whole.is_empty() {
            return Err("--only leaves out what --backend does not name: name one".into());
        }
        if options.all && whole.is_empty() {
            whole.extend(FAMILIES);
        }
        if whole.iter().any(|family| family.name == "duckdb") {
            duckdb::provide();
        }
        let mut arguments = Vec::new();
        if options.all {
            arguments.extend(workspace::everything()?);
        } else if !whole.is_empty() {
            if !options.only {
                for package in workspace::default_members()? {
                    arguments.extend(["--package".to_owned(), package]);
                }
            }
            for family in &whole {
                arguments.extend(["--package".to_owned(), family.package.to_owned()]);
            }
            let packages: Vec<_> = whole.iter().map(|family| family.package).collect();
            let features = workspace::features_of(&packages)?;
            arguments.extend(["--features".to_owned(), features]);
        }
        Ok(Self {
            arguments,
            whole,
            is_only: options.only,
            is_all: options.all && options.backend.is_empty(),
            backends: options.row.clone(),
            filter: options.filter.clone(),
        })
    }

    /// Selects everything, for CI and releases.
    pub(crate) fn everything() -> Result<Self> {
        Self::of(&TestOptions {
            all: true,
            ..TestOptions::default()
        })
    }

    fn tests(&self) -> Result<Command> {
        let mut command = cargo("test");
        command.args(&self.arguments);
        Ok(command)
    }

    /// Returns the command that builds the tests, and everything else that has code.
    pub(crate) fn all_targets(&self) -> Command {
        let mut command = cargo("test --all-targets");
        command.args(&self.arguments);
        command
    }

    fn has(&self, program: &Program) -> bool {
        match self.filter {
            Some(_) => program.is_suite(),
            None => true,
        }
    }

    fn is_whole(&self, package: &str) -> bool {
        self.is_all || self.whole.iter().any(|family| family.package == package)
    }

    /// Returns the names of the servers to start.
    fn servers(&self) -> Vec<String> {
        if self.is_all {
            let all = idem_servers::servers().iter();
            return all.map(|server| server.name().to_owned()).collect();
        }
        let mut names: Vec<&str> = Vec::new();
        if !self.is_only {
            names.extend(FAMILIES.iter().flat_map(|family| family.quick).copied());
        }
        for family in &self.whole {
            names.extend(family.quick.iter().chain(family.others).copied());
        }
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(str::to_owned).collect()
    }
}

/// Built programs, and servers that run for them.
#[derive(Debug)]
pub(crate) struct Session {
    programs: Vec<Program>,
    variables: Vec<(String, String)>,
    logs: PathBuf,
    times: Times,
    is_whole: Vec<String>,
    backends: Vec<String>,
    filter: Option<String>,
    /// Ends the servers.
    _pool: Pool,
}

impl Session {
    /// Installs what is missing and starts the servers, while `build` compiles the tests.
    pub(crate) fn prepare(selection: &Selection, build: Command) -> Result<Self> {
        let logs = workspace::members()?.target_directory.join("idem");
        let logs = logs.into_std_path_buf();
        std::fs::create_dir_all(&logs)?;
        let names = selection.servers();
        let (is_all, started) = (selection.is_all, Instant::now());
        let servers = std::thread::spawn(move || {
            tools::set_up(is_all);
            let finder = Finder::from_env().map_err(|error| error.to_string())?;
            let pool = match names.is_empty() {
                true => Ok(Pool::default()),
                false => Pool::start(&names, &finder, &Options::new(), &[]),
            };
            println!("    servers: {:.0} s", started.elapsed().as_secs_f64());
            pool.map_err(|error| error.to_string())
        });
        // Code that does not compile is reported at once: nobody waits for the servers then.
        let programs = programs::build(build)?;
        let pool = servers
            .join()
            .map_err(|_| "the start of the servers panicked")??;
        let mut variables = pool.variables();
        variables.extend(duckdb::variables());
        for server in idem_servers::servers() {
            let [url, missing] =
                ["URL", "MISSING"].map(|end| idem_servers::variable(server.name(), end));
            let is_known = variables
                .iter()
                .any(|(name, _)| *name == url || *name == missing);
            if !is_known && std::env::var_os(&url).is_none() {
                let name = server.name();
                let reason = format!("not started: `cargo xtask test --backend {name}` does");
                variables.push((missing, reason));
            }
        }
        let packages = programs.iter().map(|program| program.package.clone());
        let is_whole = packages
            .filter(|package| selection.is_whole(package))
            .collect();
        Ok(Self {
            programs,
            variables,
            times: Times::read(logs.join("times.json")),
            logs,
            is_whole,
            backends: selection.backends.clone(),
            filter: selection.filter.clone(),
            _pool: pool,
        })
    }

    /// Returns the built programs.
    pub(crate) fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Runs the chosen programs one after another, the suites last: each keeps all cores busy, and
    /// more at a time would make tests late that wait for a server. `adapt` changes a command.
    pub(crate) fn run(
        &mut self,
        is_chosen: impl Fn(&Program) -> bool,
        adapt: impl Fn(&Program, &mut Command),
    ) -> Result<Outcome> {
        let mut chosen: Vec<_> = self.programs.iter().filter(|it| is_chosen(it)).collect();
        chosen.sort_by_key(|program| {
            let took = self.times.of(&program.name());
            (program.is_suite(), std::cmp::Reverse(took))
        });
        let mut outcome = Outcome::default();
        let mut times = Vec::new();
        for program in chosen {
            let mut command = program.command();
            command.envs(self.environment(program));
            let started = Instant::now();
            if program.is_suite() {
                command.args(&self.filter);
                if !self.backends.is_empty() {
                    command.env("IDEM_BACKENDS", self.backends.join(","));
                }
                adapt(program, &mut command);
                let reports = suites::run(program, &mut command, &self.logs)?;
                outcome.reports.extend(reports);
            } else {
                command.arg(THREADS);
                adapt(program, &mut command);
                let counts = programs::counted(&program.name(), &mut command, &self.logs)?;
                outcome.note(&program.name(), counts);
            }
            times.push((program.name(), started.elapsed()));
        }
        for (name, took) in times {
            self.times.note(&name, took);
        }
        let failures = outcome.reports.iter().flat_map(Report::failures);
        outcome.failed.extend(failures.collect::<Vec<_>>());
        Ok(outcome)
    }

    /// Returns the variables for a program.
    fn environment(&self, program: &Program) -> Vec<(String, String)> {
        let mut variables = self.variables.clone();
        if self.is_whole.contains(&program.package) {
            variables.push(("IDEM_ALL".to_owned(), "1".to_owned()));
        }
        variables
    }

    /// Runs the documentation tests of the selection.
    pub(crate) fn documentation(&self, selection: &Selection) -> Result<Outcome> {
        let mut command = cargo("test --doc --no-fail-fast");
        command.args(&selection.arguments);
        self.counted("documentation tests", &mut command)
    }

    /// Runs another command that prints what libtest does.
    pub(crate) fn counted(&self, title: &str, command: &mut Command) -> Result<Outcome> {
        command.envs(self.variables.iter().cloned());
        let mut outcome = Outcome::default();
        outcome.note(title, programs::counted(title, command, &self.logs)?);
        Ok(outcome)
    }
}

/// What ran, and how it ended.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) reports: Vec<Report>,
    /// The programs that are no suites, with the number of tests that passed.
    pub(crate) programs: Vec<(String, bool)>,
    passed: u64,
    ignored: u64,
    /// What failed, by name.
    pub(crate) failed: Vec<String>,
}

impl Outcome {
    pub(crate) fn note(&mut self, name: &str, counts: Counts) {
        self.programs
            .push((name.to_owned(), counts.failed.is_empty()));
        self.passed += counts.passed;
        self.ignored += counts.ignored;
        let failed = counts.failed.into_iter();
        self.failed
            .extend(failed.map(|test| format!("{name}: {test}")));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.reports.extend(other.reports);
        self.programs.extend(other.programs);
        self.passed += other.passed;
        self.ignored += other.ignored;
        self.failed.extend(other.failed);
    }

    fn sum(&self) -> String {
        let of = |count: fn(&Report) -> u64| self.reports.iter().map(count).sum::<u64>();
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed + of(|report| report.passed),
            self.failed.len(),
            self.ignored + of(|report| report.ignored)
        )
    }

    /// Prints the failures and, on the last line, the counts.
    pub(crate) fn tell(&self) {
        for failure in &self.failed {
            println!("FAILED: {failure}");
        }
        println!("{}", self.sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(options: &TestOptions) -> Vec<String> {
        Selection::of(options).unwrap().servers()
    }

    #[test]
    fn only_servers_that_a_row_needs_are_started() {
        let plain = ["mariadb", "postgres", "redis"];
        assert_eq!(servers(&TestOptions::default()), plain);
        let with = |backend: &str, only| TestOptions {
            backend: vec![backend.to_owned()],
            only,
            ..TestOptions::default()
        };
        assert_eq!(
            servers(&with("mysql", false)),
            ["galera", "mariadb", "mysql", "postgres", "redis"]
        );
        assert_eq!(servers(&with("mongo", true)), ["mongo"]);
        assert!(Selection::of(&with("oracle", true)).is_err());
    }

    #[test]
    fn failures_are_named_and_counted() {
        let mut outcome = Outcome::default();
        outcome.note(
            "idem-core lib",
            Counts {
                passed: 3,
                ignored: 1,
                failed: vec!["run::broken".to_owned()],
            },
        );
        assert_eq!(outcome.failed, ["idem-core lib: run::broken"]);
        assert_eq!(outcome.sum(), "3 passed, 1 failed, 1 skipped");
    }
}
