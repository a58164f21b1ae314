//! A Python with sqlglot, for the test of idem-mssql that parses its T-SQL.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::step::output;
use crate::workspace;

/// The parser, in the version that the test was written with.
const SQLGLOT: &str = "sqlglot==30.30.0";

/// The package for virtual environments on Debian and Ubuntu.
const VENV: &[&str] = &["python3-venv"];

/// Creates the virtual environment in the target folder, if it is missing; on failure it prints in
/// one line what will be ignored.
pub(crate) fn set_up() {
    if let Err(error) = make() {
        println!("    the parsing of T-SQL is not tested: {error}");
    }
}

fn make() -> Result {
    let folder = workspace::members()?.target_directory.join("idem/venv");
    let python = folder.join("bin/python");
    if has_sqlglot(python.as_std_path()) {
        return Ok(());
    }
    println!("    installing {SQLGLOT} in {}", folder);
    if venv(folder.as_std_path()).is_err() {
        idem_servers::install(VENV)?;
        venv(folder.as_std_path())?;
    }
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        SQLGLOT,
    ]);
    output(&mut pip).map(drop)
}

fn venv(folder: &Path) -> Result {
    let mut python = Command::new("python3");
    python.args(["-m", "venv", "--clear"]).arg(folder);
    output(&mut python).map(drop)
}

fn has_sqlglot(python: &Path) -> bool {
    let mut version = Command::new(python);
    version.args(["-c", "import sqlglot; print(sqlglot.__version__)"]);
    output(&mut version).is_ok_and(|version| SQLGLOT.ends_with(&format!("=={}", version.trim())))
}
