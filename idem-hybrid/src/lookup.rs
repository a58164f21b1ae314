//! [`Lookup`] and [`Hit`]: the answers of a cache.

use std::time::Duration;

use bytes::Bytes;

/// The answer to a read: an entry or none, and a ticket to store one under.
#[derive(Debug, Clone)]
pub struct Lookup<T> {
    /// The entry, if there is one.
    pub hit: Option<Hit>,
    /// Issued before the entry was read.
    pub ticket: T,
}

/// An entry that a cache keeps.
#[derive(Clone, PartialEq, Eq)]
pub struct Hit {
    /// The bytes that were stored.
    pub entry: Bytes,
    /// The time since the issue of the ticket under which the entry was stored, by the cache's
    /// clock; if rounded, then up.
    pub age: Duration,
    /// How much longer the cache will keep the entry, by its clock; if rounded, then down.
    pub remaining: Duration,
}

/// Shows the size of the entry only.
impl std::fmt::Debug for Hit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hit")
            .field("bytes", &self.entry.len())
            .field("age", &self.age)
            .field("remaining", &self.remaining)
            .finish()
    }
}
