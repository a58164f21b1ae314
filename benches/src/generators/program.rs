//! Programs of servers: finds them, and runs them without blocking other tasks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use idem_core::BoxError;

/// Returns the path of a program: in a folder of `$PATH`, or beside the programs of the server.
/// Without one it prints a line on standard error.
pub(super) fn find(name: &str, server: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let server = idem_servers::server(server).ok();
    let found = std::env::split_paths(&path)
        .chain(server.and_then(idem_servers::Server::programs))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file());
    if found.is_none() {
        eprintln!("{name}: not run, it is not installed (Debian's package `{package}` has it)");
    }
    found
}

/// Runs a program to its end, on a thread of its own, and returns its output.
///
/// # Errors
///
/// An error when the program cannot be run, or fails: with its message.
pub(super) async fn run(program: &Path, arguments: Vec<OsString>) -> Result<String, BoxError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}", program.display(), errors.trim()).into())
}

/// Converts arguments of any type.
pub(super) fn arguments<A: Into<OsString>>(all: impl IntoIterator<Item = A>) -> Vec<OsString> {
    all.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_path_is_found() {
        assert!(find("sh", "", "dash").is_some());
        assert_eq!(find("idem-no-such-program", "", "none"), None);
    }

    #[tokio::test]
    async fn a_program_that_fails_says_why() {
        let shell = find("sh", "", "dash").unwrap();
        let said = run(&shell, arguments(["-c", "echo done"])).await.unwrap();
        assert_eq!(said, "done\n");
        let error = run(
            &shell,
            arguments(["-c", "echo the disk is on fire >&2; exit 3"]),
        )
        .await
        .unwrap_err();
        assert!(error.to_string().contains("the disk is on fire"), "{error}");
    }
}
