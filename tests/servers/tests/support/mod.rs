//! What the tests of real servers share: trials that can be ignored.

use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

pub(crate) type Outcome = Result<(), Failed>;
pub(crate) type Run = fn() -> Outcome;

/// The trials of one server; where it, or the client program, is not on this machine they are shown as ignored.
pub(crate) fn trials(
    server: &'static str,
    client: &'static str,
    trials: &[(&str, Run)],
) -> Vec<Trial> {
    let missing = missing(server, client);
    let reason = missing
        .as_ref()
        .map(|what| format!(" (no {what} on this machine)"));
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

fn missing(name: &'static str, client: &'static str) -> Option<String> {
    let server = idem_servers::server(name).ok()?;
    let named = std::env::var_os(server.programs_variable()).is_some();
    let answer = Command::new(client)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !named && server.programs().is_none() {
        Some(server.product().into())
    } else if answer.is_err() {
        Some(format!("client `{client}`"))
    } else {
        None
    }
}
