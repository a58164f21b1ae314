//! The conformance suites: found, built, run, counted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cargo_metadata::camino::Utf8PathBuf;
use cargo_metadata::{Message, Metadata, Package};

use crate::progress::Progress;
use crate::row::Report;
use crate::step::{cargo, output};
use crate::{Result, TestOptions, workspace};

/// The name of a suite's test target.
pub(crate) const TARGET: &str = "conformance";

/// Returns what a suite is called.
pub(crate) fn titles() -> Result<Vec<String>> {
    let workspace = workspace::members()?;
    let packages = workspace.packages.iter();
    let packages = packages.filter(|package| workspace::tests(package).contains(TARGET));
    Ok(packages.map(title).collect())
}

fn title(package: &Package) -> String {
    format!("suite of {}", package.name)
}

/// Runs every suite of the workspace. Returns the reports of each backend.
pub(crate) fn run_all(
    options: &TestOptions,
    variables: &[(String, String)],
    progress: &mut Progress,
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
        if options.all {
            command.env("IDEM_ALL", "1");
        }
        let title = title(package);
        let passed = run(&title, &mut command, folder.as_std_path(), progress)?;
        progress.end(&title);
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
    command.arg(TARGET).args(workspace::everything()?);
    let packages = workspace.packages.iter();
    let packages = packages.filter(|package| workspace::tests(package).contains(TARGET));
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

/// Runs a suite to its end. A line tells of each backend when it has ended, and a file has the
/// rest. Returns whether all cases passed.
fn run(title: &str, command: &mut Command, folder: &Path, progress: &Progress) -> Result<bool> {
    let log = folder.with_file_name(format!("{}.log", title.replace(' ', "-")));
    println!("==> {title} (each case is in {})", log.display());
    let file = File::create(&log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?);
    let mut suite = command.stderr(file).spawn()?;
    let mut known = Vec::new();
    loop {
        let status = suite.try_wait()?;
        for report in read(folder)? {
            if !known.contains(&report.backend) {
                println!("    {}; {}", report.line(), progress.shown());
                known.push(report.backend);
            }
        }
        if let Some(status) = status {
            return Ok(status.success());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Reads the reports of the backends that have ended.
fn read(folder: &Path) -> Result<Vec<Report>> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let files = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut files: Vec<_> = files.collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    let report = |file: PathBuf| Ok(serde_json::from_slice(&std::fs::read(file)?)?);
    files.into_iter().map(report).collect()
}
