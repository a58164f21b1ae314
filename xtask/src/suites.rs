//! The conformance suites: found, built, run, counted.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::row::Report;
use crate::step::{cargo, output, run};
use crate::workspace::Workspace;
use crate::{Result, TestOptions};

/// The name that a suite's test target has.
pub(crate) const TARGET: &str = "conformance";

/// A suite that was built.
#[derive(Debug)]
struct Suite {
    package: String,
    folder: PathBuf,
    program: PathBuf,
}

/// Runs every suite of the workspace; what each backend of each reported.
pub(crate) fn run_all(
    options: &TestOptions,
    variables: &[(String, String)],
) -> Result<Vec<Report>> {
    let workspace = Workspace::members()?;
    let folder = workspace.target_folder().join("idem").join("reports");
    let mut reports = Vec::new();
    for suite in build(&workspace)? {
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let mut command = Command::new(&suite.program);
        command
            .current_dir(&suite.folder)
            .envs(variables.iter().cloned())
            .env("IDEM_REPORT_DIR", &folder)
            .args(&options.filter);
        // Several words are several filters, any of which lets a case run.
        command.args(options.backend.iter().map(|backend| format!("{backend}::")));
        let passed = run(&format!("suite of {}", suite.package), &mut command)?;
        let mut found = read(&folder)?;
        let wanted = |report: &Report| {
            options.backend.is_empty() || options.backend.contains(&report.backend)
        };
        if found.is_empty() || (!passed && found.iter().all(|report| report.failed == 0)) {
            found.push(Report::broken(&suite.package));
        }
        reports.extend(found.into_iter().filter(wanted));
    }
    Ok(reports)
}

/// Builds all suites at once.
fn build(workspace: &Workspace) -> Result<Vec<Suite>> {
    let mut command = cargo(&[
        "test",
        "--no-run",
        "--message-format=json",
        "--test",
        TARGET,
    ]);
    let packages: Vec<_> = workspace
        .packages()
        .filter(|package| package.has_test(TARGET))
        .collect();
    for package in &packages {
        command.args(["--package", package.name()]);
    }
    println!("==> building {} suites", packages.len());
    let messages = output(&mut command)?;
    let suite = |package: &crate::workspace::Package<'_>| {
        let program = messages
            .lines()
            .find_map(|line| executable(line, &package.folder()));
        Ok(Suite {
            package: package.name().to_owned(),
            folder: package.folder(),
            program: program.ok_or_else(|| format!("no suite was built for {}", package.name()))?,
        })
    };
    packages.iter().map(suite).collect()
}

/// The program of the suite whose package is in this folder, if the line tells of it.
fn executable(line: &str, folder: &Path) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let is_suite = message["target"]["name"] == TARGET && manifest.parent() == Some(folder);
    is_suite
        .then(|| message["executable"].as_str().map(PathBuf::from))
        .flatten()
}

fn read(folder: &Path) -> Result<Vec<Report>> {
    let mut files: Vec<_> = match std::fs::read_dir(folder) {
        Ok(entries) => entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<_>>()?,
        Err(_) => Vec::new(),
    };
    files.sort();
    let report = |file: PathBuf| Ok(serde_json::from_slice(&std::fs::read(file)?)?);
    files.into_iter().map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_known_by_its_target_and_folder() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml",
            "target":{"kind":["test"],"name":"conformance"},"executable":"/t/conformance-1"}"#
            .replace('\n', "");
        assert_eq!(
            executable(&line, Path::new("/w/a")),
            Some("/t/conformance-1".into())
        );
        assert_eq!(executable(&line, Path::new("/w/b")), None);
        assert_eq!(executable("{}", Path::new("/w/a")), None);
    }
}
