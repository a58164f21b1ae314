//! [`Record`]: what a store knows about a key.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Failure, FencingToken, Fingerprint, Metadata, Response, StalePolicy, Timestamp};

/// The fields that every answer about a live record contains, whatever its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordInfo {
    /// The fingerprint of the request that came first.
    pub fingerprint: Fingerprint,
    /// The token of the latest acquisition.
    pub token: FencingToken,
    /// How often the key was acquired since it was fresh: 1, and one more for each takeover or
    /// retry.
    pub attempts: u32,
    /// When the key was first seen.
    pub created_at: Timestamp,
    /// When the retention ends and the key is fresh again; for a record in flight, if its holder
    /// does nothing more.
    pub expires_at: Timestamp,
    /// The store's clock when it answered.
    pub observed_at: Timestamp,
    /// The metadata that the claim left on the record.
    pub metadata: Metadata,
}

impl RecordInfo {
    /// Creates what a store reports of a record; `attempts` starts at 1.
    #[must_use]
    pub fn new(fingerprint: Fingerprint, token: FencingToken, attempts: u32) -> Self {
        Self {
            fingerprint,
            token,
            attempts,
            created_at: Timestamp::default(),
            expires_at: Timestamp::default(),
            observed_at: Timestamp::default(),
            metadata: Metadata::new(),
        }
    }

    /// Sets the three instants: first seen, end of retention, the store's clock now.
    #[must_use]
    pub fn with_times(
        mut self,
        created_at: Timestamp,
        expires_at: Timestamp,
        observed_at: Timestamp,
    ) -> Self {
        self.created_at = created_at;
        self.expires_at = expires_at;
        self.observed_at = observed_at;
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Returns how long the record had left when the store answered, by the store's clock.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.expires_at.saturating_since(self.observed_at)
    }
}

/// A claim that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// The common fields of the record.
    pub info: RecordInfo,
    /// When the holder's lease ends, or has ended.
    pub lease_ends_at: Timestamp,
    /// What happens when it has ended, as the holder's claim said.
    pub on_stale: StalePolicy,
}

impl InFlight {
    /// Returns how long the lease had left when the store answered, by the store's clock; zero when
    /// it is stale.
    #[must_use]
    pub fn lease_remaining(&self) -> Duration {
        self.lease_ends_at.saturating_since(self.info.observed_at)
    }

    /// Returns whether the lease had ended when the store answered.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.lease_ends_at <= self.info.observed_at
    }
}

/// A claim that was completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed {
    /// The common fields of the record.
    pub info: RecordInfo,
    /// The sealed response.
    pub response: Response,
    /// When it was sealed.
    pub sealed_at: Timestamp,
}

/// A claim that failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The common fields of the record.
    pub info: RecordInfo,
    /// The recorded failure.
    pub failure: Failure,
    /// When it was recorded.
    pub sealed_at: Timestamp,
}

/// The key is in use for another request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The common fields of the record, with the stored fingerprint.
    pub info: RecordInfo,
}

/// A live record, by state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Record {
    /// An attempt works on it, or did until its lease ended.
    InFlight(InFlight),
    /// It is done.
    Completed(Completed),
    /// It failed for good.
    Failed(Failed),
}

impl Record {
    /// Returns the fields that are common to all states.
    #[must_use]
    pub fn info(&self) -> &RecordInfo {
        match self {
            Self::InFlight(InFlight { info, .. })
            | Self::Completed(Completed { info, .. })
            | Self::Failed(Failed { info, .. }) => info,
        }
    }

    /// Returns the response, if it is completed.
    #[must_use]
    pub fn response(&self) -> Option<&Response> {
        match self {
            Self::Completed(completed) => Some(&completed.response),
            Self::InFlight(_) | Self::Failed(_) => None,
        }
    }
}
