//! `cargo xtask bench`: every performance figure of the documentation.

mod backends;
mod chart;
mod data;
mod docs;
mod facts;
mod instructions;
mod judge;
mod machine;
mod options;
mod profile;
mod programs;
mod report;
mod row;
mod table;

use std::path::Path;

pub(crate) use options::BenchOptions;

use crate::pool::Pool;
use crate::{Result, step, workspace};
use facts::Facts;
use judge::Judge;
use machine::Machine;
use programs::{Program, Rows};
use report::Report;

/// Measures. Returns whether every subject ran. A missed target is shown, and is no failure.
pub(crate) fn run(options: &BenchOptions) -> Result<bool> {
    let target = workspace::members()?.target_directory.into_std_path_buf();
    let folder = target.join("idem");
    std::fs::create_dir_all(&folder)?;
    if options.show {
        let report = Report::read(&folder.join("bench.json"))?;
        tell(options, report, &folder)?;
        return Ok(true);
    }
    let wanted = backends::servers(options);
    if !step::run("build", &mut programs::build(options))? {
        return Ok(false);
    }
    if !step::run(
        "build of the crate idempotent",
        &mut programs::build_rival(&target),
    )? {
        println!("    idem is measured without the crate idempotent");
    }
    println!("==> servers with durable settings");
    programs::set_up(&wanted);
    let servers = facts::start(&wanted, options)?;
    if let Some(path) = &options.profile {
        return profile::run(options, path, &servers, &target);
    }
    let facts = servers.instances().iter().map(Facts::from).collect();
    let mut report = Report::new(Machine::here(), facts, options.quick);
    let mut failed = Vec::new();
    for program in programs::all(options, &servers, &folder) {
        let title = program.title;
        if !measure(program, &servers, &target, &mut report)? {
            failed.push(title.to_owned());
        }
    }
    for (name, reason) in servers.missing() {
        println!("    not measured: {name}: {reason}");
        if options.backend.iter().any(|wanted| wanted == name) {
            failed.push((*name).to_owned());
        }
    }
    drop(servers);
    tell(options, report, &folder)?;
    if target.join("criterion").is_dir() {
        let html = target.join("criterion/report/index.html");
        println!("criterion's report: {}", html.display());
    }
    // Failures come last, where a reader looks first.
    for title in &failed {
        println!("FAILED: {title}");
    }
    Ok(failed.is_empty())
}

/// Runs a program and adds its rows, even if it fails. Returns whether it succeeded.
fn measure(program: Program, servers: &Pool, target: &Path, report: &mut Report) -> Result<bool> {
    if let Rows::In(file) = &program.rows {
        // Removes the rows of an earlier run.
        let _ = std::fs::remove_file(file);
    }
    let mut command = program.command;
    let done = step::run(program.title, command.envs(servers.variables()))?;
    match program.rows {
        Rows::In(file) if file.exists() => report.add_file(&file)?,
        Rows::Counted => report.rows.extend(instructions::rows(target)?),
        Rows::In(_) | Rows::None => {}
    }
    Ok(done)
}

/// Writes the report and the charts, and prints the table.
fn tell(options: &BenchOptions, mut report: Report, folder: &Path) -> Result {
    let file = folder.join("bench.json");
    let judge = Judge::read()?;
    println!("\n{}", table::plain(&judge.judge(report.rows())));
    if let Ok(earlier) = Report::read(&file) {
        report.keep_others_of(earlier);
    }
    report.write(&file)?;
    let rows = judge.judge(report.rows());
    let charts = chart::draw(&rows, folder)?;
    for name in charts.iter().map(String::as_str).chain(["bench.json"]) {
        println!("{}", folder.join(name).display());
    }
    if options.docs {
        docs::write(&report, &rows)?;
    }
    Ok(())
}
