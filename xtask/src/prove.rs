//! `cargo xtask prove`: installs what faults need, and runs `prove`.

use std::ffi::OsString;

use crate::step::cargo;
use crate::{Result, tools, workspace};

/// The workspace of `prove`. Its dependencies are built where those of this one are.
pub(crate) const MANIFEST: &str = "lab/Cargo.toml";

/// Packages with which faults are injected.
const FAULTS: &[&str] = &[
    "e2fsprogs",
    "gcc",
    "iproute2",
    "iptables",
    "mount",
    "perl-base",
    "strace",
    "util-linux",
];

/// The servers with cells of their own.
const SERVERS: &[&str] = &[
    "postgres", "etcd", "patroni", "redis", "valkey", "mariadb", "mysql",
];

/// The commands that run any cell; the others read files.
const RUNS: &[&str] = &["campaign", "cell", "doctor"];

/// Runs `prove` with these arguments. Returns its exit status.
pub(crate) fn run(arguments: &[OsString]) -> Result<u8> {
    let command = arguments.first().and_then(|word| word.to_str());
    match command {
        // It draws a cell, and installs the servers of that one.
        Some("ci") => install(FAULTS, &[]),
        Some(command) if RUNS.contains(&command) => install(FAULTS, SERVERS),
        _ => {}
    }
    // A campaign needs speed, and its first build takes a quarter of an hour: cargo shows how far it
    // is.
    let mut prove = match command {
        Some("ci") => cargo("run --quiet"),
        _ => cargo("run --release"),
    };
    prove.args(["--manifest-path", MANIFEST, "--target-dir"]);
    prove.arg(workspace::members()?.target_directory).arg("--");
    let status = prove.args(arguments).status()?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(2))
}

/// Installs what is missing. What cannot be installed is reported as not run by `prove doctor`.
fn install(faults: &[&str], servers: &[&str]) {
    if let Err(error) = tools::packages(faults) {
        println!("    some faults are not injected: {error}");
    }
    for name in servers {
        let provided = idem_servers::server(name)
            .and_then(|server| server.provide(|message| println!("    {message}")));
        if let Err(error) = provided {
            println!("    {name} is not run: {error}");
        }
    }
}
