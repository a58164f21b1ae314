//! [`Stop`]: why a run has no result.

use std::fmt;
use std::process::ExitCode;

use idem_core::BoxError;

/// A run that cannot begin or continue, in one line that says what, where and what to do.
#[derive(Debug)]
pub(crate) struct Stop {
    message: String,
    status: u8,
}

impl Stop {
    /// Bad arguments, an unreachable store: status 2.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let (message, status) = (message.into(), 2);
        Self { message, status }
    }

    /// A signal ended the run: status 130, as in shells.
    pub(crate) fn interrupted() -> Self {
        let message = "interrupted; the workers are stopped, nothing was checked".to_owned();
        let status = 130;
        Self { message, status }
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Stop {}

/// Turns an error into a [`Stop`].
pub(crate) trait OrStop<T> {
    /// Returns the value, or says what was not possible, with the error and all its causes.
    fn or_stop(self, message: impl fmt::Display) -> Result<T, Stop>;
}

impl<T, E: Into<BoxError>> OrStop<T> for Result<T, E> {
    fn or_stop(self, message: impl fmt::Display) -> Result<T, Stop> {
        self.map_err(|error| Stop::new(format!("{message}: {}", chain(&*error.into()))))
    }
}

/// Returns the error and its sources in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
        source = error.source();
    }
    line.replace('\n', " ")
}
