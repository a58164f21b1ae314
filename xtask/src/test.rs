//! `cargo xtask test`.

use std::collections::BTreeSet;
use std::process::Command;

use idem_servers::{Finder, Options, Source};

use crate::pool::Pool;
use crate::row::{Report, json, table};
use crate::step::{self, cargo, has};
use crate::{Result, TestOptions, host, junit, python, suites, workspace};

/// Runs everything. Returns whether all of it passed.
pub(crate) fn run(options: &TestOptions) -> Result<bool> {
    println!("==> servers");
    host::set_up(options);
    let mut finder = Finder::from_env()?;
    if options.no_containers {
        finder = finder.without(Source::Container);
    }
    let pool = Pool::default().with_finder(finder);
    let pool = pool.start(&needed(options), &Options::new())?;
    let variables = pool.variables();
    let mut failed = Vec::new();
    if options.backend.is_empty() && options.filter.is_none() {
        python::set_up();
        for (title, mut command) in other_tests(options)? {
            junit::forget()?;
            if !step::run(title, command.envs(variables.iter().cloned()))? {
                failed.push(title.to_owned());
                failed.extend(junit::failed()?);
            }
        }
    }
    let reports = suites::run_all(options, &variables)?;
    drop(pool);
    tell(options, &reports)?;
    // Failures come last, where a reader looks first.
    let cases = reports.iter().flat_map(Report::failures);
    for failure in failed.iter().cloned().chain(cases) {
        println!("FAILED: {failure}");
    }
    Ok(failed.is_empty() && reports.iter().all(|report| report.failed == 0))
}

/// The crates that need no server: their tests also run with all features at once.
const PLAIN: [&str; 4] = ["idem-core", "idem-http", "idem-queue", "idem-webhooks"];

/// Returns the servers to start, where none means all. If every wanted backend is named like a
/// server, only those start.
fn needed(options: &TestOptions) -> Vec<String> {
    let backends = &options.backend;
    if backends
        .iter()
        .all(|name| idem_servers::server(name).is_ok())
    {
        backends.clone()
    } else {
        Vec::new()
    }
}

/// Returns the tests that are not conformance suites.
fn other_tests(options: &TestOptions) -> Result<Vec<(&'static str, Command)>> {
    let mut tests = Vec::new();
    let has_nextest = has("cargo-nextest", &["nextest", "--version"]);
    let unit = if has_nextest {
        let mut command = cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "-E"]);
        command.arg(format!("not binary({})", suites::TARGET));
        if options.no_containers {
            command.args(["--exclude", "idem-containers"]);
        }
        command
    } else {
        println!(
            "    cargo-nextest is not installed: `cargo test` runs the tests, one program at a time"
        );
        without_nextest(options)?
    };
    tests.push(("tests", unit));
    let featured: &[&str] = if has_nextest {
        &["nextest", "run", "--no-fail-fast"]
    } else {
        &["test", "--no-fail-fast", "--lib", "--tests"]
    };
    tests.push(("tests of all features", with_all_features(featured)));
    let mut examples = cargo(&["test", "--quiet", "--workspace", "--doc"]);
    if options.no_containers {
        examples.args(["--exclude", "idem-containers"]);
    }
    tests.push(("documentation tests", examples));
    let featured = with_all_features(&["test", "--quiet", "--doc"]);
    tests.push(("documentation tests of all features", featured));
    let mut model = cargo(&[
        "test",
        "--quiet",
        "--package",
        "idem-core",
        "--test",
        "shuttle",
    ]);
    model.env("RUSTFLAGS", "--cfg shuttle").env(
        "CARGO_TARGET_DIR",
        workspace::members()?.target_directory.join("shuttle"),
    );
    tests.push(("model check of the memory store", model));
    Ok(tests)
}

/// Returns a command over the crates that need no server, with all their features.
fn with_all_features(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.arg("--all-features");
    for package in PLAIN {
        command.args(["--package", package]);
    }
    command
}

/// Returns every test target by name, except the suites.
fn without_nextest(options: &TestOptions) -> Result<Command> {
    let workspace = workspace::members()?;
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--lib", "--bins"]);
    if options.no_containers {
        command.args(["--exclude", "idem-containers"]);
    }
    let tests: BTreeSet<_> = workspace
        .packages
        .iter()
        .flat_map(workspace::tests)
        .collect();
    for name in tests {
        if name != suites::TARGET {
            command.args(["--test", name]);
        }
    }
    Ok(command)
}

fn tell(options: &TestOptions, reports: &[Report]) -> Result {
    println!("\n{}", table(reports));
    if let Some(file) = &options.json {
        std::fs::write(file, json(reports)?)
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let sum = |count: fn(&Report) -> u64| reports.iter().map(count).sum::<u64>();
    println!(
        "{} passed, {} failed, {} skipped",
        sum(|report| report.passed),
        sum(|report| report.failed),
        sum(|report| report.ignored)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_that_a_backend_needs_are_started() {
        let needed = |backends: &[&str]| {
            needed(&TestOptions {
                backend: backends.iter().map(|name| (*name).to_owned()).collect(),
                ..TestOptions::default()
            })
        };
        assert_eq!(needed(&["mysql", "galera"]), ["mysql", "galera"]);
        let family = ["redis", "redis-cluster", "valkey", "mongo"];
        assert_eq!(needed(&family), family);
        // The servers of a backend with another name are unknown, so all start.
        assert!(needed(&["mysql", "hybrid"]).is_empty());
        assert!(needed(&[]).is_empty());
    }
}
