//! [`Cache`]: the contract of a tier.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::{Key, Result};

use crate::Lookup;

/// A tier that keeps entries for a while, may forget them at any time, and never serves an
/// invalidated one.
///
/// A cache keeps *one* database's entries: its namespace names the database, or only one database's
/// stores share the object.
///
/// # To ensure correctness
///
/// The danger of every cache is the late store. A reader reads a value from the database and is
/// paused. Then the value is deleted and the cache notified. Then the reader goes on and stores
/// what it read. So nothing is stored without a *ticket*:
///
/// * [`read`](Self::read) issues a ticket. It carries the *epoch* of the key's bucket (a random
///   value; where there is none, the read makes one) and the instant by the cache's own clock.
/// * [`invalidate`](Self::invalidate) removes the entry and replaces the epoch.
/// * [`store`](Self::store) compares the ticket's epoch with the bucket's, and stores the entry
///   only if they are equal.
///
/// A caller takes a ticket *before* it reads the database, and uses it after that. A caller that
/// invalidates changes the database *first*. A ticket issued before the invalidation is void. One
/// issued after it comes before a read of the database that sees the change. There is no third
/// case, so no late store can undo an invalidation.
///
/// A cache that has lost its memory (restart, flush, eviction of an epoch) has lost the epoch too;
/// the next read makes another, which no older ticket carries.
///
/// Lifetimes count from the ticket's instant, not from the store: a reader that was paused in
/// between cannot lengthen them.
///
/// # Cancellation
///
/// Every future may be dropped at any poll: the operation has happened, or has not, or still
/// happens.
#[async_trait]
pub trait Cache: Debug + Send + Sync + 'static {
    /// The ticket that [`read`](Self::read) issues and [`store`](Self::store) takes.
    type Ticket: Clone + Debug + Send + Sync + 'static;

    /// Returns a ticket, and the key's entry if one is kept and its lifetime has not ended by the
    /// cache's clock.
    ///
    /// *Atomicity*: one round trip at most. The ticket is issued no later than the answer.
    ///
    /// # Errors
    ///
    /// The cache cannot be reached or its answer is invalid. The kind does not matter: callers only
    /// count these errors.
    async fn read(&self, key: &Key) -> Result<Lookup<Self::Ticket>>;

    /// Keeps the entry until `lifetime` after the instant at which the ticket was issued, and
    /// replaces an older one. Returns `false`, and does nothing, when the key (or another of its
    /// bucket) was invalidated or the cache lost its memory since then, or when it refuses the
    /// entry. When that end has passed, either answer is right, and the entry is not served.
    ///
    /// *Atomicity*: comparing and storing are one step, against [`invalidate`](Self::invalidate)
    /// too.
    ///
    /// # Errors
    ///
    /// The cache cannot be reached; the entry may be stored or not.
    async fn store(
        &self,
        key: &Key,
        ticket: &Self::Ticket,
        entry: Bytes,
        lifetime: Duration,
    ) -> Result<bool>;

    /// Removes the entry and voids every ticket issued before.
    ///
    /// # Errors
    ///
    /// The cache cannot be reached; the entry may still be served, until its lifetime ends. Repeat
    /// it.
    async fn invalidate(&self, key: &Key) -> Result<()>;
}
