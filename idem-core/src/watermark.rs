//! [`WatermarkStore`]: the latest version of each source.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Error, IdempotencyStore, Key, Result};

/// The largest version: the largest signed integer of 64 bits, because databases store that.
pub const MAX_VERSION: u64 = i64::MAX as u64;

/// The result of an [`advance`](WatermarkStore::advance).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Advance {
    /// The mark was below, or there was none: it is at the version now.
    Advanced,
    /// The mark was at this version already. This is a repetition: of this caller (whose answer was
    /// lost, or that was killed after it) or of another one with the same version.
    Unchanged,
    /// Something newer was seen before.
    Stale {
        /// The current version of the mark.
        current: u64,
    },
}

impl Advance {
    /// Returns whether something newer was seen before.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }
}

/// A store that keeps the latest version of each source: an atomic maximum, for events that arrive
/// out of order.
///
/// A [`Key`] names a source: scope, kind of thing, id. Marks and records are separate, also under
/// equal keys. To refuse late events and still lose nothing, advance *inside* the claimed work,
/// before its effect: a retry of the same event finds the mark [`Unchanged`](Advance::Unchanged)
/// and goes on.
#[async_trait]
pub trait WatermarkStore: IdempotencyStore {
    /// Raises the source's mark to `version`, or returns that the version is stale.
    ///
    /// *Atomicity*: one step. Of concurrent calls with different versions the highest is the mark
    /// afterwards; of those with the same version exactly one returns
    /// [`Advanced`](Advance::Advanced).
    ///
    /// *Behaviour*: a mark whose retention has ended by the store's clock counts as absent, deleted
    /// or not. `Advanced` begins a new retention; the other answers write nothing.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a version above [`MAX_VERSION`] or a retention that is zero or above
    /// [`MAX_RETENTION`](crate::limits::MAX_RETENTION); others as usual. After an unknown effect,
    /// repeat the call.
    ///
    /// # Cancellation
    ///
    /// The mark may be raised or not; repeat the call.
    async fn advance(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance>;

    /// Returns the source's mark; `None` when it has none, or its retention has ended.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Misconfigured`, `Corrupt`.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    async fn watermark(&self, source: &Key) -> Result<Option<u64>>;

    /// Deletes at most `limit` marks whose retention has ended; returns how many. Fewer than
    /// `limit` means that no more were found. Marks that a server expires by itself are not
    /// counted.
    ///
    /// # Errors
    ///
    /// As for [`delete_expired`](IdempotencyStore::delete_expired).
    ///
    /// # Cancellation
    ///
    /// Some, all or none of the batch are deleted.
    async fn delete_expired_watermarks(&self, limit: u32) -> Result<u64>;
}

/// Returns the version in the form that databases keep.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is above [`MAX_VERSION`].
pub(crate) fn checked(version: u64) -> Result<i64> {
    i64::try_from(version).map_err(|_| {
        Error::invalid_input(format!(
            "the version {version} is above {MAX_VERSION}, the largest that every store can keep"
        ))
    })
}
