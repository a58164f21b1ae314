//! [`Failure`]: the replayed result of work that failed for good.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A recorded failure: a code for programs, a message for people, and bytes for the caller's own
/// use.
///
/// Codes that start with `idem.` are this family's: see the constants.
/// [`Limits::max_result_bytes`](crate::Limits) limits the size.
///
/// `Debug` shows the code and sizes only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    code: String,
    message: String,
    details: Bytes,
}

impl Failure {
    /// The lease ended and the operation must not run again, so the record was failed.
    pub const ABANDONED: &'static str = "idem.abandoned";
    /// The work panicked, and the policy records that.
    pub const PANICKED: &'static str = "idem.panicked";
    /// The caller went away while the work ran, and the policy records that.
    pub const CANCELLED: &'static str = "idem.cancelled";
    /// The work returned an error, and the policy records that.
    pub const FAILED: &'static str = "idem.failed";
    /// The work has run, but its result could not be stored: too large, or without a JSON form. It
    /// must not run again for that reason.
    pub const NOT_STORED: &'static str = "idem.not_stored";

    /// Creates a failure with this code (at most 65,535 bytes) and message.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            details: Bytes::new(),
        }
    }

    /// Creates the failure that a claim or `fail_abandoned` records for a stale claim that may not
    /// be taken over.
    #[must_use]
    pub fn abandoned() -> Self {
        Self::new(
            Self::ABANDONED,
            "the holder's lease ended before it sealed a result, and the operation may not be taken over",
        )
    }

    /// Adds bytes for the caller's own use.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<Bytes>) -> Self {
        self.details = details.into();
        self
    }

    /// Returns the code.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the caller's bytes; empty if none were given.
    #[must_use]
    pub fn details(&self) -> &Bytes {
        &self.details
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("code", &self.code)
            .field("message_bytes", &self.message.len())
            .field("details_bytes", &self.details.len())
            .finish()
    }
}
