//! Programs of the system.

use std::process::Command;
use std::time::{Duration, Instant};

use idem_core::BoxError;

/// Runs a program to its end and returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, BoxError> {
    output(Command::new(program).args(arguments))
}

/// Runs a command to its end and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, BoxError> {
    let program = command.get_program().display().to_string();
    let output = command
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => {
            let said = [text(&output.stdout), text(&output.stderr)].join(" ");
            Err(format!("{program} failed ({}): {}", output.status, said.trim()).into())
        }
    }
}

/// Retries until it succeeds, for `time` at most.
pub(crate) fn retry<T>(
    time: Duration,
    mut attempt: impl FnMut() -> Result<T, BoxError>,
) -> Result<T, BoxError> {
    let deadline = Instant::now() + time;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            result => return result,
        }
    }
}
