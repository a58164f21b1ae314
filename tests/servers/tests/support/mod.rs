//! What the tests of servers that speak MySQL's protocol share: trials that can be ignored, and a client.

use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

pub(crate) type Outcome = Result<(), Failed>;
pub(crate) type Run = fn() -> Outcome;

/// The trials of one server; where it, or the client, is not on this machine they are shown as ignored.
pub(crate) fn trials(server: &'static str, trials: &[(&str, Run)]) -> Vec<Trial> {
    let missing = missing(server);
    let reason = missing.map(|what| format!(" (no {what} on this machine)"));
    let reason = reason.unwrap_or_default();
    let trial = |(name, run): &(&str, Run)| {
        Trial::test(format!("{name}{reason}"), *run).with_ignored_flag(missing.is_some())
    };
    trials.iter().map(trial).collect()
}

/// Runs all of them, as the command line says.
pub(crate) fn main(trials: Vec<Trial>) {
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn missing(name: &'static str) -> Option<&'static str> {
    let server = idem_servers::server(name).ok()?;
    let named = std::env::var_os(server.programs_variable()).is_some();
    let client = Command::new("mariadb")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !named && server.programs().is_none() {
        Some(server.product())
    } else if client.is_err() {
        Some("client `mariadb`")
    } else {
        None
    }
}

/// The first column of what the server at `url` answers, one row a line.
pub(crate) fn query(url: &str, sql: &str) -> Result<String, Failed> {
    query_with(url, sql, &[])
}

/// The same, with more options for the client.
pub(crate) fn query_with(url: &str, sql: &str, options: &[&str]) -> Result<String, Failed> {
    let port = url
        .rsplit_once("127.0.0.1:")
        .and_then(|(_, rest)| rest.split('/').next())
        .ok_or("no port")?;
    let output = Command::new("mariadb")
        .args(["--no-defaults", "--batch", "--skip-column-names"])
        .args(["--host=127.0.0.1", "--user=idem", "--password=idem"])
        .args(["--database=idem", "--port", port])
        .args(options)
        .args(["--execute", sql])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
