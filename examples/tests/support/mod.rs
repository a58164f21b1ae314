//! Runs the command and reads its output.

pub(crate) mod servers;

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) struct Storm {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The last line of standard output; `null` if it is not JSON.
    pub(crate) json: Value,
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_storm"));
    command.args(arguments).stdin(Stdio::null());
    command
}

impl Storm {
    pub(crate) fn run(arguments: &[&str]) -> Self {
        Self::of(command(arguments).arg("--json").output().unwrap())
    }

    pub(crate) fn with_input(arguments: &[&str], input: &[u8]) -> Self {
        let mut child = command(arguments)
            .args(["--input", "-", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that stops at a bad line does not read the rest.
        let _ = child.stdin.take().unwrap().write_all(input);
        Self::of(child.wait_with_output().unwrap())
    }

    fn of(output: Output) -> Self {
        let stdout = String::from_utf8(output.stdout).unwrap();
        let last = stdout.lines().last().unwrap_or_default();
        Self {
            status: output.status.code().unwrap(),
            json: serde_json::from_str(last).unwrap_or_default(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            stdout,
        }
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.json[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no number `{name}`:\n{}{}", self.stdout, self.stderr))
    }

    /// Checks that every effect happened once and every delivery was answered.
    #[track_caller]
    pub(crate) fn is_clean(&self, requests: u64, deliveries: u64) {
        assert_eq!(self.status, 0, "{}{}", self.stdout, self.stderr);
        assert_eq!(self.number("requests"), requests);
        assert_eq!(self.number("effects"), requests);
        assert_eq!(self.number("violations"), 0);
        assert_eq!(self.number("deliveries"), deliveries);
        let answers = ["fresh", "replays", "conflicts"].map(|name| self.number(name));
        assert_eq!(answers.iter().sum::<u64>(), deliveries, "{answers:?}");
        assert!(self.stdout.contains("Every effect happened exactly once."));
    }

    /// Checks that the command stopped with one line that contains all of this.
    #[track_caller]
    pub(crate) fn is_stopped(&self, reasons: &[&str]) {
        assert_eq!(self.status, 2, "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "");
        for reason in reasons {
            assert!(self.stderr.contains(reason), "{reason}: {}", self.stderr);
        }
    }
}

#[track_caller]
pub(crate) fn eventually(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < deadline, "it did not happen within 30 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}
