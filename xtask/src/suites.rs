//! The conformance suites: found, built, run, counted.

use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::camino::Utf8PathBuf;
use cargo_metadata::{Message, Metadata, Package};

use crate::row::Report;
use crate::step::{cargo, output, run};
use crate::{Result, TestOptions, workspace};

/// The name of a suite's test target.
pub(crate) const TARGET: &str = "conformance";

/// Runs every suite of the workspace. Returns the reports of each backend.
pub(crate) fn run_all(
    options: &TestOptions,
    variables: &[(String, String)],
) -> Result<Vec<Report>> {
    let workspace = workspace::members()?;
    let folder = workspace.target_directory.join("idem/reports");
    let mut reports = Vec::new();
    for (package, program) in build(&workspace)? {
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let mut command = Command::new(program);
        command.envs(variables.iter().cloned());
        command
            .env("IDEM_REPORT_DIR", &folder)
            .args(&options.filter);
        if let Some(package) = package.manifest_path.parent() {
            command.current_dir(package);
        }
        if !options.backend.is_empty() {
            command.env("IDEM_BACKENDS", options.backend.join(","));
        }
        let passed = run(&format!("suite of {}", package.name), &mut command)?;
        let found = read(folder.as_std_path())?;
        let is_told = found.iter().any(|report| report.failed > 0);
        let is_elsewhere = found.is_empty() && passed && !options.backend.is_empty();
        if (found.is_empty() && !is_elsewhere) || (!passed && !is_told) {
            reports.push(Report::broken(&package.name));
        }
        reports.extend(found);
    }
    if reports.is_empty() {
        let names = options.backend.join(", ");
        return Err(format!("no suite has a backend called {names}").into());
    }
    Ok(reports)
}

/// Builds all suites at once. Returns the program of each package's suite.
fn build(workspace: &Metadata) -> Result<Vec<(&Package, Utf8PathBuf)>> {
    let mut command = cargo("test --no-run --message-format=json --test");
    command.arg(TARGET);
    let packages = workspace.packages.iter();
    let packages = packages.filter(|package| workspace::tests(package).contains(TARGET));
    for package in packages.clone() {
        command.args(["--package", &package.name]);
    }
    println!("==> building {} suites", packages.clone().count());
    let messages = output(&mut command)?;
    let built: Vec<_> = Message::parse_stream(messages.as_bytes())
        .flatten()
        .filter_map(|message| match message {
            Message::CompilerArtifact(built) if built.target.name == TARGET => Some(built),
            _ => None,
        })
        .collect();
    let program = |package: &Package| {
        let mut built = built.iter().filter(|built| built.package_id == package.id);
        built.find_map(|built| built.executable.clone())
    };
    let suite = |package| match program(package) {
        Some(program) => Ok((package, program)),
        None => Err(format!("no suite was built for {}", package.name).into()),
    };
    packages.map(suite).collect()
}

fn read(folder: &Path) -> Result<Vec<Report>> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let files = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut files: Vec<_> = files.collect::<std::io::Result<_>>()?;
    files.sort();
    let report = |file: PathBuf| Ok(serde_json::from_slice(&std::fs::read(file)?)?);
    files.into_iter().map(report).collect()
}
