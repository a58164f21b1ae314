//! [`FinalResult`]: the result that ends a claim.

use std::time::Duration;

use bytes::Bytes;

use super::{StoredRecord, check};
use crate::admin::ForcedAction;
use crate::{Failure, Finish, Limits, Response, Result};

/// A response or a failure, checked and in stored form; or the release of the key.
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

    /// Creates the end of a claim that is released: without a result.
    #[must_use]
    pub fn released() -> Self {
        Self {
            state: StoredRecord::RELEASED,
            retention: 0,
            bytes: Bytes::new(),
        }
    }

    /// Checks and encodes what a forced step leaves: a failure, or a released key.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a failure above the limits or a retention out of range.
    pub fn forced(action: &ForcedAction, limits: &Limits) -> Result<Self> {
        match action {
            ForcedAction::Release | ForcedAction::Delete => Ok(Self::released()),
            ForcedAction::Fail { failure, retention } => Self::failed(failure, *retention, limits),
        }
    }

    /// Checks and encodes an item of a batch.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a response or a failure above the limits or a retention out of range.
    pub fn new(item: &Finish, limits: &Limits) -> Result<Self> {
        match item {
            Finish::Complete {
                response,
                retention,
                ..
            } => Self::completed(response, *retention, limits),
            Finish::Fail {
                failure, retention, ..
            } => Self::failed(failure, *retention, limits),
            Finish::Release { .. } => Ok(Self::released()),
        }
    }

    /// Returns [`StoredRecord::COMPLETED`], [`StoredRecord::FAILED`] or
    /// [`StoredRecord::RELEASED`].
    #[must_use]
    pub fn state(&self) -> i64 {
        self.state
    }

    /// Returns whether the key is released.
    #[must_use]
    pub fn is_release(&self) -> bool {
        self.state == StoredRecord::RELEASED
    }

    /// Returns the stored form; empty for a release, whose record has no result.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how many microseconds the record is kept; 0 for a release.
    #[must_use]
    pub fn retention(&self) -> i64 {
        self.retention
    }

    /// Returns whether a record in this state, with this stored result, has ended in the same way:
    /// then the repeated call succeeds.
    #[must_use]
    pub fn is_same(&self, state: i64, result: Option<&[u8]>) -> bool {
        state == self.state && (self.is_release() || result == Some(self.bytes()))
    }
}
