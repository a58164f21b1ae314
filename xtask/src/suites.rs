//! The conformance suites: found, built, run, counted.

use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{Message, Metadata, Package};

use crate::row::Report;
use crate::step::{cargo, output, run};
use crate::{Result, TestOptions, workspace};

/// The name of a suite's test target.
pub(crate) const TARGET: &str = "conformance";

/// A built suite.
#[derive(Debug)]
struct Suite {
    package: String,
    folder: PathBuf,
    program: PathBuf,
}

/// Runs every suite of the workspace. Returns the reports of each backend.
pub(crate) fn run_all(
    options: &TestOptions,
    variables: &[(String, String)],
) -> Result<Vec<Report>> {
    let workspace = workspace::members()?;
    let folder = workspace.target_directory.join("idem/reports");
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
        if !options.backend.is_empty() {
            command.env("IDEM_BACKENDS", options.backend.join(","));
        }
        let passed = run(&format!("suite of {}", suite.package), &mut command)?;
        let found = read(folder.as_std_path())?;
        let is_told = found.iter().any(|report| report.failed > 0);
        let is_elsewhere = found.is_empty() && passed && !options.backend.is_empty();
        if (found.is_empty() && !is_elsewhere) || (!passed && !is_told) {
            reports.push(Report::broken(&suite.package));
        }
        reports.extend(found);
    }
    if reports.is_empty() {
        let names = options.backend.join(", ");
        return Err(format!("no suite has a backend called {names}").into());
    }
    Ok(reports)
}

/// Builds all suites at once.
fn build(workspace: &Metadata) -> Result<Vec<Suite>> {
    let mut command = cargo(&[
        "test",
        "--no-run",
        "--message-format=json",
        "--test",
        TARGET,
    ]);
    let packages: Vec<_> = workspace
        .packages
        .iter()
        .filter(|package| workspace::tests(package).contains(TARGET))
        .collect();
    for package in &packages {
        command.args(["--package", &package.name]);
    }
    println!("==> building {} suites", packages.len());
    let messages = output(&mut command)?;
    let suite = |package: &&Package| {
        let folder = package
            .manifest_path
            .parent()
            .unwrap_or(&package.manifest_path);
        let program = executable(&messages, package);
        Ok(Suite {
            package: package.name.to_string(),
            folder: folder.into(),
            program: program.ok_or_else(|| format!("no suite was built for {}", package.name))?,
        })
    };
    packages.iter().map(suite).collect()
}

/// Returns the program of the package's suite, from cargo's messages.
fn executable(messages: &str, package: &Package) -> Option<PathBuf> {
    let messages = Message::parse_stream(messages.as_bytes()).flatten();
    let mut programs = messages.filter_map(|message| match message {
        Message::CompilerArtifact(built)
            if built.package_id == package.id && built.target.name == TARGET =>
        {
            built.executable.map(Into::into)
        }
        _ => None,
    });
    programs.next()
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
