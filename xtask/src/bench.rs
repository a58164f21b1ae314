//! `cargo xtask bench`: every performance figure of the documentation.

mod docs;
mod judge;
mod options;
mod programs;
mod report;
mod table;

use std::path::Path;

pub(crate) use options::BenchOptions;

use crate::machine::Machine;
use crate::step::{self, cargo};
use crate::{Result, workspace};
use judge::Judge;
use programs::Programs;
use report::{Facts, Report};

/// Measures. Returns whether every subject ran. A missed target is shown, and is no failure.
pub(crate) fn run(options: &BenchOptions) -> Result<bool> {
    let target = workspace::members()?.target_directory.into_std_path_buf();
    let folder = target.join("idem");
    std::fs::create_dir_all(&folder)?;
    if options.show {
        let report = report::read(&folder.join("bench.json"))?;
        tell(options, report, &folder)?;
        return Ok(true);
    }
    // Before the build, which is a load, too.
    let machine = Machine::here();
    if !step::run("build", &mut programs::build(options))? {
        return Ok(false);
    }
    let mut rival = programs::build_rival(&target);
    if !step::run("build of the crate idempotent", &mut rival)? {
        println!("    idem is measured without the crate idempotent");
    }
    let servers = programs::servers(options)?;
    let mut programs = Programs::new(options, &servers, &target);
    if let Some(path) = &options.profile {
        return programs.profile(path);
    }
    let mut report = Report {
        machine,
        quick: options.quick,
        servers: servers.running.iter().map(Facts::from).collect(),
        rows: Vec::new(),
    };
    programs.run_all()?;
    report.rows = programs.rows;
    let mut failed = programs.failed;
    for (name, reason) in &servers.missing {
        println!("    not measured: {name}: {reason}");
        if options.backend.iter().any(|wanted| wanted == name) {
            failed.push(name);
        }
    }
    drop(servers);
    tell(options, report, &folder)?;
    let html = target.join("criterion/report/index.html");
    if html.is_file() {
        println!("criterion's report: {}", html.display());
    }
    // Failures come last, where a reader looks first.
    for title in &failed {
        println!("FAILED: {title}");
    }
    Ok(failed.is_empty())
}

/// Writes the report and the charts, and prints the table.
fn tell(options: &BenchOptions, mut report: Report, folder: &Path) -> Result {
    let file = folder.join("bench.json");
    let judge = Judge::read()?;
    println!("\n{}", table::plain(&judge.judge(report.rows())));
    if let Ok(earlier) = report::read(&file) {
        report.keep_others_of(earlier);
    }
    report.write(&file)?;
    for name in draw(&file, folder)?
        .iter()
        .map(String::as_str)
        .chain(["bench.json"])
    {
        println!("{}", folder.join(name).display());
    }
    if options.docs {
        let charts = draw(&file, Path::new("docs"))?;
        docs::write(&report, &judge.judge(report.rows()), &charts)?;
    }
    Ok(())
}

/// Draws the charts of a report into a folder, with a program that is no part of xtask, which is
/// built first by everybody. Returns the names of the files.
fn draw(report: &Path, folder: &Path) -> Result<Vec<String>> {
    let mut charts = cargo("run --quiet --package idem-charts --");
    let names = step::output(charts.arg(report).arg(folder))?;
    Ok(names.lines().map(str::to_owned).collect())
}
