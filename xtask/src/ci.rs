//! `cargo xtask ci`: what a landing has to pass; and `cargo xtask release`: all that a release has to.

use std::ffi::OsString;
use std::process::Command;

use crate::check::{self, Members};
use crate::ledger::{FILE, Ledger};
use crate::machine::Machine;
use crate::programs::Program;
use crate::step::{self, output};
use crate::test::{self, Outcome, PLAIN, Selection, Session};
use crate::touched::{Touched, code_of};
use crate::{Result, clients, prove, workspace};

/// The packages whose tests a landing runs only when it changes them: they test the tests.
const TOOLS: [&str; 2] = ["idem-servers", "idem-containers"];

/// A landing that changes one of these packages runs a drawn quarter of the clients that people use.
const CLIENTS: [&str; 3] = ["idem-http", "idem-webhooks", "idem-clients"];

/// Of the tests that start servers of their own, a landing that does not change the crate runs one in
/// so many.
const TESTS: u64 = 2;

/// What a landing draws: a number from its commit, the same on every machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draw(u64);

impl Draw {
    fn of_commit() -> Result<Self> {
        let mut commit = Command::new("git");
        let commit = output(commit.args(["rev-parse", "HEAD"]))?;
        let digits = commit.get(..15).ok_or("git names no commit")?;
        Ok(Self(u64::from_str_radix(digits, 16)?))
    }

    /// Returns whether this is drawn, as one name in so many is.
    pub(crate) fn has(self, name: &str, one_in: u64) -> bool {
        let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ self.0, step);
        (hash >> 32) % one_in == 0
    }
}

/// Runs what a landing has to pass; what it touches comes first, so that a red run says so early.
pub(crate) fn run() -> Result<bool> {
    let (touched, draw) = (Touched::find()?, Draw::of_commit()?);
    let changed: Vec<_> = touched.changed.iter().map(String::as_str).collect();
    println!("    since {}: {}", touched.base, changed.join(", "));
    println!("    drawn by IDEM_DRAW={}", draw.0);
    if !check::quick()? {
        return Ok(false);
    }
    let selection = Selection::everything()?;
    step::lint_what_is_built()?;
    let mut session = Session::prepare(&selection, selection.all_targets())?;
    let is_affected = |program: &Program| touched.affected.contains(&program.package);
    let adapt = |program: &Program, command: &mut Command| {
        if program.is_suite() {
            command.env("IDEM_DRAW", draw.0.to_string());
            if !is_affected(program) {
                command.env("IDEM_DRAWN", "*");
            }
        } else if !touched.changed.contains(&program.package)
            && (TOOLS.contains(&program.package.as_str()) || !draw.has(&program.name(), TESTS))
        {
            command.env_remove("IDEM_ALL");
        }
    };
    let mut outcome = session.run(is_affected, adapt)?;
    if !outcome.failed.is_empty() {
        outcome.tell();
        return Ok(false);
    }
    let members = Members {
        changed: &touched.sources,
        draw: Some(draw),
    };
    let mut holds = check::rest(&members)?;
    outcome.add(session.run(|program| !is_affected(program), adapt)?);
    outcome.add(session.documentation(&selection)?);
    let plain = PLAIN
        .into_iter()
        .filter(|name| touched.changed.contains(*name));
    let plain: Vec<_> = plain.collect();
    if !plain.is_empty() {
        let mut command = test::without_features(&plain);
        outcome.add(session.counted("tests without features", &mut command)?);
    }
    if touched.has_folder("idem-core/src/memory") || touched.has_folder("idem-core/tests/shuttle") {
        let title = "model check of the memory store";
        outcome.add(session.counted(title, &mut test::model_check()?)?);
    }
    if CLIENTS.iter().any(|name| touched.changed.contains(*name)) {
        outcome.note("clients", clients::run(false, Some(draw.0))?);
    }
    drop(session);
    holds &= prove::run(&[OsString::from("ci")])? == 0;
    outcome.tell();
    Ok(holds && outcome.failed.is_empty())
}

/// What a release may lack.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseOptions {
    /// Accepts that these rows have no server here; the command prints them.
    #[arg(long, value_name = "ROW", num_args = 1..)]
    without: Vec<String>,
}

/// Runs every check, and every case that has not passed with the code as it is. Fails while one is
/// missing.
pub(crate) fn release(options: &ReleaseOptions) -> Result<bool> {
    let mut holds = check::run(&check::CheckOptions::default())?;
    let selection = Selection::everything()?;
    let mut session = Session::prepare(&selection, selection.all_targets())?;
    let workspace = workspace::members()?;
    let mut ledger = Ledger::read(workspace.workspace_root.join(FILE).as_std_path())?;
    let (date, target) = (
        Machine::here().date,
        workspace.target_directory.join("idem"),
    );
    let mut lacking = Vec::new();
    let mut suites = Vec::new();
    for program in session.programs() {
        let code = code(&program.package, &workspace)?;
        if program.is_suite() {
            suites.push((program.name(), code));
        } else if !ledger
            .passed(&program.package, &code)
            .contains(&program.target)
        {
            lacking.push(program.name());
        }
    }
    let mut outcome = Outcome::default();
    for (suite, code) in &suites {
        let done = target.join("done.txt");
        std::fs::write(&done, ledger.done(code))?;
        // Before the first suite, all other tests run.
        let others = std::mem::take(&mut lacking);
        let ran = session.run(
            |program| program.name() == *suite || others.contains(&program.name()),
            |_, command| {
                command.env("IDEM_DONE", done.as_str());
            },
        )?;
        for report in &ran.reports {
            if !report.passed_cases.is_empty() {
                ledger.note(
                    &report.backend,
                    code,
                    &date,
                    report.passed_cases.iter().cloned(),
                )?;
            }
        }
        for (name, passed) in &ran.programs {
            let program = session.programs().iter().find(|it| it.name() == *name);
            if let (
                true,
                Some(Program {
                    package, target, ..
                }),
            ) = (*passed, program)
            {
                let code = self::code(package, &workspace)?;
                ledger.note(package, &code, &date, [target.clone()])?;
            }
        }
        outcome.add(ran);
    }
    outcome.add(session.documentation(&selection)?);
    outcome.add(session.counted(
        "tests without features",
        &mut test::without_features(&PLAIN),
    )?);
    outcome.add(session.counted("model check of the memory store", &mut test::model_check()?)?);
    outcome.note("clients", clients::run(false, None)?);
    drop(session);
    for report in outcome
        .reports
        .iter()
        .filter(|report| report.missing.is_some())
    {
        let row = &report.backend;
        if options.without.contains(row) {
            println!("not run, and accepted: {row}");
        } else {
            println!("MISSING: {row} did not run; with `--without {row}` the release lacks it");
            holds = false;
        }
    }
    holds &= prove::run(&[OsString::from("report"), OsString::from("--check")])? == 0;
    outcome.tell();
    Ok(holds && outcome.failed.is_empty())
}

/// Returns the hash of the code that the tests of a package are about.
fn code(package: &str, workspace: &cargo_metadata::Metadata) -> Result<String> {
    let folders = code_of(package, workspace);
    let folders: Vec<_> = folders.iter().map(String::as_str).collect();
    let root = workspace.workspace_root.as_std_path();
    Ok(idem_ledger::hash_of(root, &folders)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_draws_about_a_fifth_and_dozens_of_commits_everything() {
        let names: Vec<_> = (0..500).map(|n| format!("idem-core with {n}")).collect();
        let mut left: Vec<_> = names.iter().collect();
        for commit in 0..60_u64 {
            let draw = Draw(commit.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 4);
            let drawn = names.iter().filter(|name| draw.has(name, 5)).count();
            assert!((60..150).contains(&drawn), "{drawn}");
            left.retain(|name| !draw.has(name, 5));
        }
        assert!(left.is_empty(), "{left:?}");
    }
}
