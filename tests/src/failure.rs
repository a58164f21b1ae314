//! [`CaseError`]: why a case failed.

use std::error::Error as StdError;
use std::fmt;

use crate::secrets::redact;

/// Why a case failed, in words. Any error converts into one, with its causes. The
/// [secret](crate::secrets) is removed, and control characters are escaped.
#[derive(Debug, Clone)]
pub struct CaseError(String);

impl CaseError {
    /// Creates a failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(printable(&message.into()))
    }

    /// Adds the action that failed in front.
    #[must_use]
    pub fn while_doing(self, what: impl fmt::Display) -> Self {
        Self::new(format!("{what}: {}", self.0))
    }
}

/// Returns the text without secrets and terminal control characters.
fn printable(message: &str) -> String {
    let mut shown = String::with_capacity(message.len());
    for character in redact(message).chars() {
        match character {
            '\n' => shown.push('\n'),
            control if control.is_control() => shown.extend(control.escape_default()),
            other => shown.push(other),
        }
    }
    shown
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for CaseError {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Self::new(message)
    }
}

/// Fails the case with a message if the condition is false.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::CaseError::new(format!(
                "{} ({}:{})", format_args!($($message)+), file!(), line!()
            )));
        }
    };
}

/// Fails the case if the two differ.
macro_rules! ensure_eq {
    ($left:expr, $right:expr, $($message:tt)+) => {
        match (&$left, &$right) {
            (left, right) => {
                if left != right {
                    return Err($crate::CaseError::new(format!(
                        "{}: {left:?} is not {right:?} ({}:{})", format_args!($($message)+), file!(), line!()
                    )));
                }
            }
        }
    };
}

pub(crate) use {ensure, ensure_eq};
