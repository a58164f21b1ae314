//! Commands, each announced and timed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Result;

/// Returns cargo, as it runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs a command to its end and prints how long it took. Returns whether it succeeded.
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

/// Returns a command's standard output; if it fails, an error with its standard error.
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

/// Returns whether a program exists and answers to `--version`.
pub(crate) fn has(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns a program of the crate with the same name, in this version if one is given, in the
/// folder's `bin`; installs it if it is missing.
pub(crate) fn installed(name: &str, version: Option<&str>, folder: &Path) -> Result<PathBuf> {
    let program = folder.join("bin").join(name);
    let returned = output(Command::new(&program).arg("--version"));
    if returned
        .is_ok_and(|returned| version.is_none_or(|version| returned.trim().ends_with(version)))
    {
        return Ok(program);
    }
    let mut install = cargo(&["install", "--quiet", "--locked", name, "--root"]);
    install.arg(folder);
    if let Some(version) = version {
        install.arg("--version").arg(format!("={version}"));
    }
    match run(&format!("install {name}"), &mut install)? {
        true => Ok(program),
        false => Err(format!("{name} cannot be installed").into()),
    }
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
