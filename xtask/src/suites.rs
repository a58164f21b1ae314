//! The conformance suites: run, watched, counted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::programs::Program;
use crate::row::Report;

/// The name of a suite's test target.
pub(crate) const TARGET: &str = "conformance";

/// Runs a suite to its end, with this command. A line tells of each row when it has ended, and a
/// file of the folder `logs` has each case. Returns the reports of the rows.
pub(crate) fn run(program: &Program, command: &mut Command, logs: &Path) -> Result<Vec<Report>> {
    let folder = logs.join("reports").join(&program.package);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    command.env("IDEM_REPORT_DIR", &folder);
    let log = logs.join(format!("suite-of-{}.log", program.package));
    println!(
        "==> suite of {} (each case is in {})",
        program.package,
        log.display()
    );
    let file = File::create(&log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?);
    let started = Instant::now();
    let mut suite = command.stderr(file).spawn()?;
    let mut known = Vec::new();
    let status = loop {
        let status = suite.try_wait()?;
        for report in read(&folder)? {
            if !known.contains(&report.backend) {
                println!(
                    "    {} in {:.0} s",
                    report.line(),
                    started.elapsed().as_secs_f64()
                );
                known.push(report.backend);
            }
        }
        if let Some(status) = status {
            break status;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    let mut reports = read(&folder)?;
    let has_failed = reports.iter().any(|report| report.failed > 0);
    if !status.success() && !has_failed {
        reports.push(Report::broken(&program.package));
    }
    Ok(reports)
}

/// Reads the reports of the rows that have ended.
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
