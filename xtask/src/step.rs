//! Commands, each announced and timed.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Result;

/// Cargo, as it runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs a command to its end and says how long it took; whether it succeeded.
pub(crate) fn run(title: &str, command: &mut Command) -> Result<bool> {
    println!("==> {title}");
    let started = Instant::now();
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("{title}: {}: {error}", program(command)))?;
    let verdict = if status.success() { "ok" } else { "FAILED" };
    println!(
        "<== {title}: {verdict} in {:.0} s",
        started.elapsed().as_secs_f64()
    );
    Ok(status.success())
}

/// What a command prints on standard output; an error with what it prints on standard error if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", program(command)))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} failed: {}", program(command), errors.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Whether a program is there and answers to `--version`.
pub(crate) fn has(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
