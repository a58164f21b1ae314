//! A client of servers that speak Redis's protocol.

use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use crate::support::Outcome;

/// What the server at `url` answers to a command, with more options for the client.
pub(crate) fn ask_with(url: &str, options: &[&str], command: &str) -> Result<String, Failed> {
    let mut client = Command::new("redis-cli");
    let output = client
        .args(["-u", url, "-e"])
        .args(options)
        .args(command.split(' '))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Waits for it; an error when it does not come to pass.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        if Instant::now() > deadline {
            return Err(format!("not within a minute: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
