//! [`Cache`]: the contract of a tier.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::{Key, Result};

use crate::Lookup;

/// A place that keeps entries for a while, forgets them whenever it likes, and never serves one
/// that was invalidated.
///
/// A cache keeps *one* database's entries: it is made for a namespace that names the database, or
/// it is an object that only one database's stores share.
///
/// # To ensure correctness
///
/// The danger of every cache is the late store: a value is read from the database, the reader is
/// paused, the value is deleted and the cache told so, and then the reader goes on and stores what
/// it read. So nothing is stored without a *ticket*:
///
/// * [`read`](Self::read) issues a ticket. It carries the *epoch* of the key's bucket (a random
///   value; where there is none, the read makes one) and the instant by the cache's own clock.
/// * [`invalidate`](Self::invalidate) removes the entry and replaces the epoch.
/// * [`store`](Self::store) compares the ticket's epoch with the bucket's, and stores nothing
///   unless they are equal.
///
/// A ticket is taken *before* the database is read and used after it. Whoever invalidates changes
/// the database *first*. A ticket issued before the invalidation is void. One issued after it comes
/// before a read of the database that sees the change. There is no third case, so no late store can
/// undo an invalidation.
///
/// A cache that has lost its memory (restart, flush, eviction of an epoch) has lost the epoch too;
/// the next read makes another, which no older ticket carries.
///
/// Lifetimes count from the ticket's instant, not from the store: a reader that was paused in
/// between cannot lengthen them.
///
/// # Cancellation
///
/// Every future may be dropped at any poll: the operation has happened, or not, or happens yet.
#[async_trait]
pub trait Cache: Debug + Send + Sync + 'static {
    /// What [`read`](Self::read) issues and [`store`](Self::store) takes.
    type Ticket: Clone + Debug + Send + Sync + 'static;

    /// Returns the key's entry, if one is kept and its lifetime has not ended by the cache's clock,
    /// and a ticket.
    ///
    /// *Atomicity*: one round trip at most. The ticket is issued no later than the answer.
    ///
    /// # Errors
    ///
    /// The cache cannot be reached or answers nonsense. Of whatever kind: callers only count them.
    async fn read(&self, key: &Key) -> Result<Lookup<Self::Ticket>>;

    /// Keeps the entry until `lifetime` after the instant at which the ticket was issued, replacing
    /// what is kept. Answers `false`, and does nothing, when the key (or another of its bucket) was
    /// invalidated or the cache lost its memory since then, or when it does not want the entry.
    /// When that end has passed, either answer is right, and the entry is not served.
    ///
    /// *Atomicity*: of comparing and storing together, against [`invalidate`](Self::invalidate)
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
