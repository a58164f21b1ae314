//! [`WatermarkStore`]: the latest version of each source.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Error, IdempotencyStore, Key, Result};

/// The largest version: what a signed integer of 64 bits holds, because that is what databases
/// have.
pub const MAX_VERSION: u64 = i64::MAX as u64;

/// What became of an [`advance`](WatermarkStore::advance).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Advance {
    /// The mark was below, or there was none: it is at the version now.
    Advanced,
    /// The mark was at this version already: this is a repetition, of this caller (whose answer was
    /// lost, or who was killed after it) or of another one with the same version.
    Unchanged,
    /// Something newer was seen before.
    Stale {
        /// Where the mark is.
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

/// A store that keeps the latest version of each source: an atomic maximum, for events that come
/// out of order.
///
/// A source is named by a [`Key`]: who, what kind of thing, which one. Marks and records do not see
/// each other, also under equal keys. To refuse what comes late and still lose nothing, advance
/// *inside* the claimed work, before its effect: a retry of the same event finds the mark
/// [`Unchanged`](Advance::Unchanged) and goes on.
#[async_trait]
pub trait WatermarkStore: IdempotencyStore {
    /// Raises the source's mark to `version`, or tells that it is stale.
    ///
    /// *Atomicity*: one step. Of concurrent calls with different versions the highest is the mark
    /// afterwards; of those with one version exactly one is told [`Advanced`](Advance::Advanced).
    ///
    /// *Behaviour*: a mark whose retention has ended counts as absent, purged or not, by the
    /// store's clock. `Advanced` begins a new retention; the other answers write nothing.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a version above [`MAX_VERSION`] or a retention that is zero or above
    /// [`MAX_RETENTION`](crate::limits::MAX_RETENTION); others as usual. After an unknown effect,
    /// ask again.
    ///
    /// # Cancellation
    ///
    /// The mark may be raised or not; ask again.
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

    /// Deletes at most `limit` marks whose retention has ended; tells how many. Fewer than `limit`
    /// means that no more were found. What a server expires by itself is not counted.
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
