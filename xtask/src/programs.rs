//! The test programs: built by one cargo, run several at a time, counted.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cargo_metadata::{Message, Metadata, TargetKind};

use crate::suites;
use crate::{Result, workspace};

/// The number of tests of a program that run at a time: most wait for a server or a process.
pub(crate) const THREADS: &str = "--test-threads=8";

/// A built test program.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) package: String,
    /// `lib`, `bin NAME`, or the name of an integration test.
    pub(crate) target: String,
    file: PathBuf,
    /// The folder of the package, where the program runs.
    folder: PathBuf,
}

/// What a program printed at its end.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) ignored: u64,
    /// The names of the tests that failed.
    pub(crate) failed: Vec<String>,
}

impl Program {
    /// Returns whether this is a conformance suite.
    pub(crate) fn is_suite(&self) -> bool {
        self.target == suites::TARGET
    }

    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }

    /// Returns the command that runs it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// Runs a command that prints what libtest does, into a file of the folder `logs`.
pub(crate) fn counted(name: &str, command: &mut Command, logs: &Path) -> Result<Counts> {
    let log = logs.join(format!("{}.log", name.replace(' ', "-")));
    let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?);
    let started = Instant::now();
    let status = command.stderr(file).status()?;
    let mut counts = counts(&std::fs::read_to_string(&log).unwrap_or_default());
    if !status.success() && counts.failed.is_empty() {
        counts.failed.push(format!("ended with {status}"));
    }
    let (passed, failed) = (counts.passed, counts.failed.len());
    let took = started.elapsed().as_secs_f64();
    println!("    {name}: {passed} passed, {failed} failed in {took:.1} s");
    for name in &counts.failed {
        println!("    FAILED: {name}, see {}", log.display());
    }
    Ok(counts)
}

/// Builds the test programs that these arguments of cargo select; standard error shows the progress.
pub(crate) fn build(mut command: Command) -> Result<Vec<Program>> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]);
    println!("==> build");
    let started = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("the tests do not compile".into());
    }
    println!("<== build: ok in {:.0} s", started.elapsed().as_secs_f64());
    programs(&output.stdout, &workspace::members()?)
}

fn programs(messages: &[u8], workspace: &Metadata) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for message in Message::parse_stream(messages) {
        let Message::CompilerArtifact(built) = message? else {
            continue;
        };
        let (true, Some(file)) = (built.profile.test, built.executable) else {
            continue;
        };
        let is_bench = built.target.is_kind(TargetKind::Bench);
        let mut packages = workspace.packages.iter();
        let Some(package) = packages.find(|package| package.id == built.package_id) else {
            continue;
        };
        let folder = package
            .manifest_path
            .parent()
            .ok_or("a package without a folder")?;
        let target = match built.target.kind.first() {
            Some(TargetKind::Test) => built.target.name,
            Some(TargetKind::Bin) => format!("bin {}", built.target.name),
            Some(TargetKind::Example) => format!("example {}", built.target.name),
            _ => "lib".to_owned(),
        };
        if !is_bench {
            programs.push(Program {
                package: package.name.to_string(),
                target,
                file: file.into(),
                folder: folder.into(),
            });
        }
    }
    Ok(programs)
}

/// Reads what libtest, or a program like it, prints.
fn counts(text: &str) -> Counts {
    let mut counts = Counts::default();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some((_, rest)) = line.split_once("test result: ") {
            for part in rest.split(['.', ';']) {
                match part.trim().split_once(' ') {
                    Some((number, "passed")) => counts.passed += number.parse().unwrap_or(0),
                    Some((number, "ignored")) => counts.ignored += number.parse().unwrap_or(0),
                    _ => {}
                }
            }
        } else if line == "failures:" {
            // The first list has what each printed, the second one only names.
            let names = lines.clone().take_while(|line| line.starts_with("    "));
            let names: Vec<_> = names.map(|line| line.trim().to_owned()).collect();
            if !names.is_empty() {
                counts.failed = names;
            }
        }
    }
    counts
}

/// How long each program took in the last run, kept in a file: the longest begin first.
#[derive(Debug, Default)]
pub(crate) struct Times {
    file: PathBuf,
    took: BTreeMap<String, Duration>,
}

impl Times {
    pub(crate) fn read(file: PathBuf) -> Self {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let took = serde_json::from_str(&text).unwrap_or_default();
        Self { file, took }
    }

    pub(crate) fn of(&self, name: &str) -> Duration {
        self.took.get(name).copied().unwrap_or_default()
    }

    /// Notes a time. Without the file the next run does the same in another order.
    pub(crate) fn note(&mut self, name: &str, time: Duration) {
        self.took.insert(name.to_owned(), time);
        let text = serde_json::to_string_pretty(&self.took).unwrap_or_default();
        let _ = std::fs::write(&self.file, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_name() {
        let text = "running 2 tests\n\nfailures:\n\n---- a::b stdout ----\nno\n\n\nfailures:\n    \
                    a::b\n\ntest result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured\n";
        let expected = Counts {
            passed: 1,
            ignored: 2,
            failed: vec!["a::b".to_owned()],
        };
        assert_eq!(counts(text), expected);
        let two = "test result: ok. 3 passed; 0 failed; 0 ignored\n\
                   test result: ok. 4 passed; 0 failed; 1 ignored\n";
        let all = counts(two);
        assert_eq!((all.passed, all.ignored), (7, 1));
        assert!(all.failed.is_empty());
    }

    #[test]
    fn the_next_run_knows_the_times() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("times.json");
        let mut times = Times::read(file.clone());
        assert_eq!(times.of("a"), Duration::ZERO);
        times.note("a", Duration::from_secs(2));
        assert_eq!(Times::read(file).of("a"), Duration::from_secs(2));
    }
}
