//! [`Redacted`]: the class of an error, without its text.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::Error;

/// Shows a foreign error in `Debug` by its type and class, never by its text.
///
/// Errors of drivers and codecs quote data: a decoder shows the value that it did not expect, a
/// database the row that breaks a constraint. The errors of this family therefore show their
/// sources in this form. Code that may show the text gets it from [`source`](StdError::source).
///
/// ```
/// let error = serde_json::from_str::<u8>(r#""secret""#).unwrap_err();
/// let shown = format!("{:?}", idem_core::backend::Redacted::new(&error));
/// assert_eq!(shown, "serde_json { category: Data, line: 1, column: 8 }");
/// ```
#[derive(Clone, Copy)]
pub struct Redacted<'e> {
    error: &'e (dyn StdError + 'static),
    type_name: Option<&'static str>,
}

impl<'e> Redacted<'e> {
    /// Wraps this error. Its type is not known; see [`with_type_name`](Self::with_type_name).
    #[must_use]
    pub fn new(error: &'e (dyn StdError + 'static)) -> Self {
        Self {
            error,
            type_name: None,
        }
    }

    /// Adds the name of the error's type, such as [`std::any::type_name`] gives it.
    #[must_use]
    pub fn with_type_name(mut self, name: &'static str) -> Self {
        self.type_name = Some(name);
        self
    }
}

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(result) = known(self.error, f) {
            return result;
        }
        let mut shown = f.debug_struct(self.type_name.unwrap_or("error"));
        // The source of a driver's error is often of the standard library, and says more.
        let mut next = self.error.source();
        while let Some(error) = next {
            if is_known(error) {
                shown.field("source", &Redacted::new(error));
                break;
            }
            next = error.source();
        }
        shown.finish_non_exhaustive()
    }
}

/// Shows an error of a type whose parts are known not to hold data.
fn known(error: &(dyn StdError + 'static), f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
    if let Some(own) = own(error) {
        return Some(fmt::Debug::fmt(own, f));
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        let mut shown = f.debug_struct("io");
        shown.field("kind", &error.kind());
        if let Some(code) = error.raw_os_error() {
            shown.field("os", &code);
        }
        return Some(shown.finish());
    }
    let error = error.downcast_ref::<serde_json::Error>()?;
    let mut shown = f.debug_struct("serde_json");
    shown
        .field("category", &error.classify())
        .field("line", &error.line())
        .field("column", &error.column());
    Some(shown.finish())
}

fn is_known(error: &(dyn StdError + 'static)) -> bool {
    own(error).is_some() || error.is::<io::Error>() || error.is::<serde_json::Error>()
}

/// Returns an error of this crate, whose own `Debug` is redacted.
fn own<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Error> {
    error
        .downcast_ref::<Error>()
        .or_else(|| error.downcast_ref::<Arc<Error>>().map(|error| &**error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "SECRET-4242";

    #[derive(Debug, thiserror::Error)]
    #[error("row ({0})")]
    struct Driver(&'static str, #[source] io::Error);

    #[test]
    fn classes_are_shown_and_texts_are_not() {
        let json = serde_json::from_str::<u8>(&format!("\"{SECRET}\"")).unwrap_err();
        let io = io::Error::new(io::ErrorKind::ConnectionReset, SECRET);
        let driver = Driver(SECRET, io::Error::from(io::ErrorKind::TimedOut));
        for (error, class) in [
            (&json as &(dyn StdError + 'static), "Data"),
            (&io, "ConnectionReset"),
            (&driver, "TimedOut"),
        ] {
            assert!(error.to_string().contains(SECRET));
            for shown in [
                format!("{:?}", Redacted::new(error)),
                format!("{:#?}", Redacted::new(error)),
            ] {
                assert!(
                    !shown.contains(SECRET) && shown.contains(class),
                    "{class}: {} bytes",
                    shown.len()
                );
            }
        }
    }

    #[test]
    fn type_is_named_where_it_is_known() {
        let error = Driver(SECRET, io::Error::from(io::ErrorKind::TimedOut));
        let shown = Redacted::new(&error).with_type_name("Driver");
        assert_eq!(
            format!("{shown:?}"),
            "Driver { source: io { kind: TimedOut }, .. }"
        );
    }
}
