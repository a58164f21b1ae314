//! [`CaseError`]: why a case did not pass.

use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::secrets::redact;

/// Why a case did not pass, in words. Any error converts into one, with its causes and the place of
/// the conversion. The [secret](crate::secrets) is removed, and control characters are escaped.
#[derive(Debug, Clone)]
pub struct CaseError {
    message: String,
    pub(crate) kind: Kind,
}

/// What a case is that did not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Failed,
    NotRun,
    Unfinished,
}

impl CaseError {
    /// Creates a failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(Kind::Failed, message)
    }

    /// Creates the reason why a case cannot run here, such as a right that the server does not grant.
    /// The case counts as ignored.
    pub fn not_run(reason: impl Into<String>) -> Self {
        Self::of(Kind::NotRun, reason)
    }

    /// Creates the report that something took longer than it may. The machine may have been busy, so
    /// the case runs once more, alone, and fails if it is late again.
    pub fn late(message: impl Into<String>) -> Self {
        Self::of(Kind::Unfinished, message)
    }

    pub(crate) fn of(kind: Kind, message: impl Into<String>) -> Self {
        let message = printable(&message.into());
        Self { message, kind }
    }

    /// Adds the action that failed in front.
    #[must_use]
    pub fn while_doing(self, what: impl fmt::Display) -> Self {
        Self::of(self.kind, format!("{what}: {}", self.message))
    }
}

/// Checks that something took less time than it may; otherwise the case is [late](CaseError::late).
///
/// # Errors
///
/// An error with both times.
#[track_caller]
pub fn in_time(took: Duration, limit: Duration) -> Result<(), CaseError> {
    if took < limit {
        return Ok(());
    }
    let at = Location::caller();
    let (file, line) = (at.file(), at.line());
    Err(CaseError::late(format!(
        "took {took:?}, and may take {limit:?} ({file}:{line})"
    )))
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
        f.write_str(&self.message)
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for CaseError {
    #[track_caller]
    fn from(error: E) -> Self {
        let at = Location::caller();
        let error = error.into();
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Self::new(format!("{message} ({}:{})", at.file(), at.line()))
    }
}

/// Longer forms, such as those of records, are shown where they differ only.
const SHOWN: usize = 160;

/// Returns `1 is not 2`.
pub(crate) fn difference(left: &dyn fmt::Debug, right: &dyn fmt::Debug) -> String {
    let (left, right) = (format!("{left:?}"), format!("{right:?}"));
    if left.len().max(right.len()) <= SHOWN {
        return format!("{left} is not {right}");
    }
    let pairs = left.chars().zip(right.chars());
    let same = pairs.take_while(|(left, right)| left == right).count();
    let begin = same.saturating_sub(SHOWN / 4);
    let part = |text: &str| text.chars().skip(begin).take(SHOWN / 2).collect::<String>();
    format!(
        "from character {begin} on, `{}` is not `{}`",
        part(&left),
        part(&right)
    )
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
                        "{}: {} ({}:{})",
                        format_args!($($message)+),
                        $crate::failure::difference(left, right),
                        file!(),
                        line!()
                    )));
                }
            }
        }
    };
}

pub(crate) use {ensure, ensure_eq};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_forms_are_shown_where_they_differ() {
        assert_eq!(difference(&1, &2), "1 is not 2");
        let [left, right] = [1, 2].map(|number| ("a".repeat(500), number, "b".repeat(500)));
        let shown = difference(&left, &right);
        assert!(
            shown.contains("a\", 1, \"b") && shown.contains("a\", 2, \"b"),
            "{shown}"
        );
        assert!(shown.len() < 250, "{shown}");
    }

    #[test]
    fn an_error_says_where_it_was_met() {
        let failed = || -> crate::CaseResult<u32> { Ok("x".parse()?) };
        let line = line!() - 1;
        let shown = failed().unwrap_err().to_string();
        assert!(shown.ends_with(&format!("failure.rs:{line})")), "{shown}");
    }
}
