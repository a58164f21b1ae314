//! [`Rewrite`]: another stored form of a sealed record.

use crate::admin::AUDIT_OPERATION;
use crate::backend::{StoredRecord, StoredResult};
use crate::{Error, FencingToken, Key, Metadata, Result};

/// The forms that take the place of a sealed record's result and metadata: the same values,
/// encrypted under another key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    key: Key,
    token: FencingToken,
    result: StoredResult,
    metadata: Metadata,
}

impl Rewrite {
    /// Creates the new forms of the record that has this token.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for the key of an audit entry, which nobody
    /// changes.
    pub fn new(
        key: Key,
        token: FencingToken,
        result: StoredResult,
        metadata: Metadata,
    ) -> Result<Self> {
        if key.operation() == AUDIT_OPERATION {
            return Err(Error::invalid_input(
                "this is the key of an audit entry; audit entries cannot be changed",
            ));
        }
        Ok(Self {
            key,
            token,
            result,
            metadata,
        })
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the token that the record must have.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the state that the record must have: that of this kind of result.
    #[must_use]
    pub fn state(&self) -> i64 {
        match &self.result {
            StoredResult::Response(_) => StoredRecord::COMPLETED,
            StoredResult::Failure(_) => StoredRecord::FAILED,
        }
    }

    /// Returns the new form of the result.
    #[must_use]
    pub fn result(&self) -> &StoredResult {
        &self.result
    }

    /// Returns the new form of the metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
