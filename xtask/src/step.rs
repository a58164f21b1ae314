//! Commands, each announced and timed.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use crate::{Result, duckdb};

/// Clippy, where it compiles the members in place of the compiler.
static LINTER: OnceLock<PathBuf> = OnceLock::new();

/// From now on, every cargo compiles the members by Clippy's driver, and a warning is an error: one
/// pass both lints and builds.
pub(crate) fn lint_what_is_built() -> Result {
    let root = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let driver = PathBuf::from(root.trim()).join("bin/clippy-driver");
    if !driver.is_file() {
        return Err(format!(
            "{} is missing: `rustup component add clippy`",
            driver.display()
        )
        .into());
    }
    let _ = LINTER.set(driver);
    Ok(())
}

/// Returns cargo, as it runs this program, with these words as arguments. Each run knows the folder
/// of DuckDB's library: cargo would build the driver anew with every change.
pub(crate) fn cargo(arguments: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments.split_whitespace());
    command.envs(duckdb::variables());
    if let Some(driver) = LINTER.get() {
        // As `cargo clippy -- -D warnings` does.
        command.env("RUSTC_WORKSPACE_WRAPPER", driver);
        let end = "__CLIPPY_HACKERY__";
        command.env("CLIPPY_ARGS", format!("-D{end}warnings{end}"));
    }
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

/// Returns whether a program exists and succeeds with these arguments, such as `--version`.
pub(crate) fn has(program: &str, arguments: &[&str]) -> bool {
    output(Command::new(program).args(arguments)).is_ok()
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
