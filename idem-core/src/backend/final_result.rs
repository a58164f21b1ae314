//! [`FinalResult`]: the result that ends a claim.

use std::time::Duration;

use bytes::Bytes;

use super::{StoredRecord, check};
use crate::{Failure, Limits, Response, Result};

/// A response or a failure, checked and in stored form.
#[derive(Debug, Clone)]
pub struct FinalResult {
    state: i64,
    bytes: Bytes,
    retention: i64,
}

impl FinalResult {
    /// Checks and encodes the response of a completion.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a response above the limits or a retention out of range.
    pub fn completed(response: &Response, retention: Duration, limits: &Limits) -> Result<Self> {
        Ok(Self {
            state: StoredRecord::COMPLETED,
            retention: check::retention(retention)?,
            bytes: check::response(response, limits)?,
        })
    }

    /// Checks and encodes a failure.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a failure above the limits or a retention out of range.
    pub fn failed(failure: &Failure, retention: Duration, limits: &Limits) -> Result<Self> {
        Ok(Self {
            state: StoredRecord::FAILED,
            retention: check::retention(retention)?,
            bytes: check::failure(failure, limits)?,
        })
    }

    /// Returns [`StoredRecord::COMPLETED`] or [`StoredRecord::FAILED`].
    #[must_use]
    pub fn state(&self) -> i64 {
        self.state
    }

    /// Returns the stored form.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how many microseconds the record is kept.
    #[must_use]
    pub fn retention(&self) -> i64 {
        self.retention
    }

    /// Returns whether a record in this state, with this stored result, has ended in the same way:
    /// then the repeated call succeeds.
    #[must_use]
    pub fn is_same(&self, state: i64, result: Option<&[u8]>) -> bool {
        state == self.state && result == Some(self.bytes())
    }
}
