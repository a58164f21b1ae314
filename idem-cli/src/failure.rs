//! [`Failure`]: why a command ends, and with which exit code.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::process::ExitCode;

use idem_core::{Error, ErrorKind};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, and nothing is wrong.
    Done,
    /// A check found a problem, or the step was refused.
    Problems,
    /// Wrong usage or configuration.
    Usage,
    /// The store cannot be reached, or failed.
    Store,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Problems => 1,
            Exit::Usage => 2,
            Exit::Store => 3,
        })
    }
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command failed: one line for people, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    fn new(exit: Exit, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { exit, message }
    }

    /// Creates a refusal: the store is in order, and says no.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Problems, message)
    }

    /// Creates an error of the command line or the configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Creates an error of the store or its server.
    pub(crate) fn store(message: impl Into<String>) -> Self {
        Self::new(Exit::Store, message)
    }

    /// Returns how the program ends.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Adds where it happened.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{} [{place}]", self.message);
        self
    }
}

/// Shows one line, whatever the message has.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.message.split_whitespace().collect();
        f.write_str(&words.join(" "))
    }
}

impl StdError for Failure {}

/// The store's message never has keys, payloads or passwords; those of its sources may, and are not
/// shown.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::Misconfigured => Exit::Usage,
            ErrorKind::ClaimLost | ErrorKind::AlreadySealed => Exit::Problems,
            _ => Exit::Store,
        };
        let mut message = error.to_string().replace("`migrate()`", "`idem migrate`");
        message = message.replace("`Config::with_table`", "`--table`");
        message = message.replace("`StatementMode::Unprepared`", "`--unprepared`");
        Self::new(exit, message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::store(format!("cannot write: {error}"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::store(format!("cannot write JSON: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use idem_core::Effect;

    use super::*;

    #[test]
    fn a_failure_is_one_line_and_has_a_stable_code() {
        for (kind, exit) in [
            (ErrorKind::InvalidInput, Exit::Usage),
            (ErrorKind::Misconfigured, Exit::Usage),
            (ErrorKind::ClaimLost, Exit::Problems),
            (ErrorKind::Unavailable, Exit::Store),
            (ErrorKind::Corrupt, Exit::Store),
        ] {
            let error = Error::new(kind, Effect::None, "one\n  two");
            let failure = Failure::from(error);
            assert_eq!(failure.exit(), exit, "{kind:?}");
            assert!(failure.to_string().starts_with("one two"), "{failure}");
        }
    }

    #[test]
    fn advice_names_commands_instead_of_methods() {
        let message = "run `migrate()`, or `Config::with_table`";
        let error = Error::new(ErrorKind::Misconfigured, Effect::None, message);
        let shown = Failure::from(error).to_string();
        assert_eq!(shown, "run `idem migrate`, or `--table`");
    }
}
