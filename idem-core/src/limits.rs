//! Limits that hold for every store.

use std::time::Duration;

pub use crate::watermark::MAX_VERSION;

/// The most that a store accepts. Keys have limits of their own: see [`Key`](crate::Key).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a response (status, headers and body together) or a failure, in stored form.
    pub max_result_bytes: usize,
    /// Bytes of the metadata in JSON form.
    pub max_metadata_bytes: usize,
}

impl Limits {
    /// 8 MiB for a result, 4 KiB for metadata.
    pub const DEFAULT: Self = Self {
        max_result_bytes: 8 << 20,
        max_metadata_bytes: 4 << 10,
    };

    /// Sets another limit for results, in bytes.
    #[must_use]
    pub const fn with_max_result_bytes(mut self, bytes: usize) -> Self {
        self.max_result_bytes = bytes;
        self
    }

    /// Sets another limit for metadata, in bytes.
    #[must_use]
    pub const fn with_max_metadata_bytes(mut self, bytes: usize) -> Self {
        self.max_metadata_bytes = bytes;
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The longest lease: 30 days. A longer one would be a claim that outlives its holder by months.
pub const MAX_LEASE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The longest retention: 3,650 days.
pub const MAX_RETENTION: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// Most records that one call of `delete_expired` or `fail_abandoned` may change.
pub const MAX_BATCH: u32 = 10_000;
