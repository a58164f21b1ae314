//! [`NotDone`]: why a delivery has no value.

use std::error::Error as StdError;
use std::fmt;

use idem_core::backend::Redacted;
use idem_core::{BoxError, Error};

use crate::Disposition;

/// Why a delivery has no value, and the answer to the broker.
#[derive(Debug)]
pub struct NotDone {
    pub(crate) disposition: Disposition,
    pub(crate) reason: Reason,
}

/// Why a delivery has no value.
///
/// Neither `Display` nor `Debug` shows the text of the work's error, which may quote the message;
/// the error is the [`source`](StdError::source).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Another consumer works on it, or stopped and its lease has not ended.
    #[error("the message is being worked on")]
    InFlight,
    /// The work's error; the message is released.
    #[error("the work did not succeed")]
    Temporary(#[source] BoxError),
    /// It has failed for good, now or before, and the store has recorded that.
    #[error("the message has failed for good, recorded as `{code}`")]
    Failed {
        /// [`Failure::FAILED`](idem_core::Failure::FAILED) after a permanent error,
        /// [`Consumer::POISON`](crate::Consumer::POISON) after too many deliveries, or another
        /// recorded code.
        code: String,
    },
    /// Its key belongs to another message.
    #[error("the message's key belongs to another message")]
    Conflict,
    /// The work has run, and its result or failure is not known to be stored.
    #[error("the message's end is not known to be stored")]
    NotStored(#[source] Error),
    /// It was done before, and its value cannot be read as this work's: another version of the
    /// program stored it. The disposition is `Ack`.
    #[error("the message was done before, with another kind of value")]
    Unreadable(#[source] Error),
    /// The message has a record that cannot be read: it was begun, and may be done. The work did not
    /// run for this delivery. The message comes again, for when the server is repaired.
    #[error("what became of an earlier delivery of the message cannot be read")]
    OutcomeUnknown(#[source] Error),
    /// The store did not decide; the work did not run for this delivery.
    #[error("the store did not decide")]
    Store(#[source] Error),
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InFlight => f.write_str("InFlight"),
            Self::Temporary(error) => f
                .debug_tuple("Temporary")
                .field(&Redacted::new(&**error))
                .finish(),
            Self::Failed { code } => f.debug_struct("Failed").field("code", code).finish(),
            Self::Conflict => f.write_str("Conflict"),
            Self::NotStored(error) => f.debug_tuple("NotStored").field(error).finish(),
            Self::Unreadable(error) => f.debug_tuple("Unreadable").field(error).finish(),
            Self::OutcomeUnknown(error) => f.debug_tuple("OutcomeUnknown").field(error).finish(),
            Self::Store(error) => f.debug_tuple("Store").field(error).finish(),
        }
    }
}

impl NotDone {
    /// Returns the answer to the broker.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        self.disposition
    }

    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl StdError for NotDone {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.reason.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_work_s_error_is_not_shown() {
        let source = idem_core::Response::new(200, "\"SECRET-4242\"");
        let unreadable = source.from_json::<u8>().unwrap_err();
        for reason in [
            Reason::Temporary("SECRET-4242".into()),
            Reason::Unreadable(unreadable),
        ] {
            let not_done = NotDone {
                disposition: Disposition::Ack,
                reason,
            };
            let shown = format!("{not_done} {not_done:?} {not_done:#?}");
            assert!(!shown.contains("SECRET"), "the text is shown");
        }
    }
}
