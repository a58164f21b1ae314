//! `cargo xtask test`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use idem_servers::{Finder, Options, Source};

use crate::machine::Machine;
use crate::page::{self, EVIDENCE};
use crate::pool::Pool;
use crate::progress::Progress;
use crate::row::{Report, json, markdown, table};
use crate::step::{self, cargo, has};
use crate::{Result, TestOptions, duckdb, suites, tools, workspace};

/// Runs everything. Returns whether all of it passed.
pub(crate) fn run(options: &TestOptions) -> Result<bool> {
    let steps = suites::titles()?.into_iter();
    let mut progress = Progress::begin(steps.chain(TESTS.map(str::to_owned)))?;
    tools::set_up(options);
    let no_duckdb = duckdb::set_up().err().map(|error| {
        let reason = format!("DuckDB's library cannot be had: {error}").replace('\n', " ");
        println!("    duckdb: {reason}");
        ("IDEM_DUCKDB_MISSING".to_owned(), reason)
    });
    let mut finder = Finder::from_env()?;
    if options.no_containers {
        finder = finder.without(Source::Container);
    }
    let (slow, others) = needed(options);
    // Where one has to be built, that takes minutes, beside the tests.
    let slow = slow.into_iter().map(|name| {
        let finder = finder.clone();
        let start = move || {
            let pool = Pool::start(&[name.to_owned()], &finder, &Options::new(), &[]);
            pool.map_err(|error| error.to_string())
        };
        (name, std::thread::spawn(start))
    });
    let slow: Vec<_> = slow.collect();
    let is_whole = options.backend.is_empty() && options.filter.is_none();
    if is_whole {
        step::run("build", &mut build()?)?;
    }
    println!("==> servers");
    let mut pool = match others.is_empty() {
        true => Pool::default(),
        false => Pool::start(&others, &finder, &Options::new(), &[])?,
    };
    for (name, starting) in slow {
        if starting.is_finished() || is_required(name, options) {
            let started = starting.join().map_err(|_| format!("{name}: a panic"))?;
            pool.add(started?);
        } else {
            pool.note_missing(
                name,
                "it is still being built; the next run has it".to_owned(),
            );
        }
    }
    let mut variables = pool.variables();
    variables.extend(duckdb::variables());
    variables.extend(no_duckdb);
    let mut failed = Vec::new();
    progress.next();
    if is_whole {
        for (title, mut command) in TESTS.into_iter().zip(other_tests(options)?) {
            // Removes the report of an earlier run.
            let _ = std::fs::remove_file(junit()?);
            if !step::run(title, command.envs(variables.iter().cloned()))? {
                failed.push(title.to_owned());
                let report = std::fs::read_to_string(junit()?).unwrap_or_default();
                failed.extend(failed_tests(&report));
            }
            progress.end(title);
            println!("    {}", progress.shown());
        }
    }
    let reports = suites::run_all(options, &variables, &mut progress)?;
    drop(pool);
    tell(options, &reports)?;
    // Failures come last, where a reader looks first.
    let cases = reports.iter().flat_map(Report::failures);
    for failure in failed.iter().cloned().chain(cases) {
        println!("FAILED: {failure}");
    }
    Ok(failed.is_empty() && reports.iter().all(|report| report.failed == 0))
}

/// The crates that need no server: their tests also run without features.
const PLAIN: [&str; 6] = [
    "idem-actix",
    "idem-client",
    "idem-core",
    "idem-http",
    "idem-queue",
    "idem-webhooks",
];

/// Returns the servers to start: those that may have to be built, and the others. If every wanted
/// backend is named like a server, only those start.
fn needed(options: &TestOptions) -> (Vec<&'static str>, Vec<String>) {
    let backends = &options.backend;
    let is_server = |name: &String| idem_servers::server(name).is_ok();
    let all = || {
        idem_servers::servers()
            .iter()
            .map(|server| server.name().to_owned())
    };
    let mut names = match !backends.is_empty() && backends.iter().all(is_server) {
        true => backends.clone(),
        false => all().collect(),
    };
    let is_wanted = |built: &&str| names.iter().any(|name| name == built);
    let built = BUILT.into_iter().filter(is_wanted).collect();
    names.retain(|name| !BUILT.contains(&name.as_str()));
    (built, names)
}

/// The servers that are built from sources where no package has them.
const BUILT: [&str; 2] = ["mongo", "dynamodb"];

/// Returns whether a run without this server would be none.
fn is_required(name: &str, options: &TestOptions) -> bool {
    let required = std::env::var("IDEM_REQUIRE").unwrap_or_default();
    let mut required = required.split(',').map(str::trim);
    required.any(|wanted| wanted == name) || options.backend.iter().any(|wanted| wanted == name)
}

/// Returns the command that builds the tests.
fn build() -> Result<Command> {
    let mut command = match has_nextest() {
        true => cargo("nextest run --no-run --cargo-quiet"),
        false => cargo("test --no-run --quiet"),
    };
    command.args(workspace::everything()?);
    Ok(command)
}

fn has_nextest() -> bool {
    has("cargo-nextest", &["nextest", "--version"])
}

/// The tests that are not conformance suites.
const TESTS: [&str; 4] = [
    "tests",
    "tests without features",
    "documentation tests",
    "model check of the memory store",
];

/// Returns the commands of [`TESTS`].
fn other_tests(options: &TestOptions) -> Result<[Command; 4]> {
    let has_nextest = has_nextest();
    let mut unit = if has_nextest {
        let mut command = cargo("nextest run --no-fail-fast -E");
        command.arg(format!("not binary({})", suites::TARGET));
        command
    } else {
        println!(
            "    cargo-nextest is not installed: `cargo test` runs the tests, one program at a time"
        );
        without_nextest()?
    };
    unit.args(workspace::everything()?);
    let mut featureless = cargo("test --no-fail-fast --quiet --lib --tests --no-default-features");
    for package in PLAIN {
        featureless.args(["--package", package]);
    }
    let mut examples = cargo("test --quiet --doc");
    examples.args(workspace::everything()?);
    if options.no_containers {
        for command in [&mut unit, &mut examples] {
            command.args(["--exclude", "idem-containers"]);
        }
    }
    let mut model = cargo("test --quiet --package idem-core --test shuttle");
    let target = workspace::members()?.target_directory.join("shuttle");
    model.env("RUSTFLAGS", "--cfg shuttle");
    model.env("CARGO_TARGET_DIR", target);
    Ok([unit, featureless, examples, model])
}

/// Returns every test target by name, except the suites.
fn without_nextest() -> Result<Command> {
    let mut command = cargo("test --no-fail-fast --lib --bins");
    let workspace = workspace::members()?;
    let packages = workspace.packages.iter();
    let tests: BTreeSet<_> = packages.flat_map(workspace::tests).collect();
    for name in tests.into_iter().filter(|name| *name != suites::TARGET) {
        command.args(["--test", name]);
    }
    Ok(command)
}

/// Returns the path of nextest's report of its last run, in JUnit format: nextest keeps its store in
/// the workspace, wherever the target folder is.
fn junit() -> Result<PathBuf> {
    let root = workspace::members()?.workspace_root;
    Ok(root.join("target/nextest/default/junit.xml").into())
}

/// Returns the failed tests of the report, by program and name.
fn failed_tests(report: &str) -> Vec<String> {
    let cases = report.split("<testcase ").skip(1);
    let failed = cases.filter(|case| case.contains("<failure") || case.contains("<error"));
    let name = |case: &str| {
        let program = attribute(case, "classname")?;
        Some(format!("{program} {}", attribute(case, "name")?))
    };
    failed.filter_map(name).collect()
}

fn attribute<'c>(case: &'c str, name: &str) -> Option<&'c str> {
    let (_, rest) = case.split_once(&format!("{name}=\""))?;
    Some(rest.split_once('"')?.0)
}

fn tell(options: &TestOptions, reports: &[Report]) -> Result {
    println!("\n{}", table(reports));
    if let Some(file) = &options.json {
        std::fs::write(file, json(reports)?)
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let sum = |count: fn(&Report) -> u64| reports.iter().map(count).sum::<u64>();
    let all = format!(
        "{} passed, {} failed, {} skipped",
        sum(|report| report.passed),
        sum(|report| report.failed),
        sum(|report| report.ignored)
    );
    if options.docs {
        let ran = page::on(&Machine::here());
        let text = format!("Run {ran}: {all}.\n\n{}", markdown(reports));
        page::write(EVIDENCE, "test", &text)?;
    }
    println!("{all}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_that_a_backend_needs_are_started() {
        let needed = |backends: &[&str]| {
            let (built, others) = needed(&TestOptions {
                backend: backends.iter().map(|name| (*name).to_owned()).collect(),
                ..TestOptions::default()
            });
            (built.len(), others)
        };
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(needed(&["mysql", "galera"]), (0, of(&["mysql", "galera"])));
        assert_eq!(needed(&["redis", "mongo"]), (1, of(&["redis"])));
        // The servers of a backend with another name are unknown, so all start.
        let all = idem_servers::servers().len();
        for backends in [&["mysql", "hybrid"][..], &[]] {
            let (built, others) = needed(backends);
            assert_eq!((built, others.len()), (2, all - 2));
        }
    }

    #[test]
    fn only_those_that_failed_are_named() {
        let report = r#"<testsuites><testsuite name="idem-core::engine">
            <testcase name="run::fine" classname="idem-core::engine" time="0.1">
            </testcase>
            <testcase name="run::broken" classname="idem-core::engine" time="0.1">
                <failure type="test failure"/>
            </testcase></testsuite></testsuites>"#;
        assert_eq!(failed_tests(report), ["idem-core::engine run::broken"]);
        assert!(failed_tests("").is_empty());
    }
}
