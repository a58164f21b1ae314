//! [`Lookup`] and [`Hit`]: what a cache answers.

use std::time::Duration;

use bytes::Bytes;

/// The answer to a read: an entry or none, and a ticket with which one may be stored.
#[derive(Debug, Clone)]
pub struct Lookup<T> {
    /// The entry, if there is one.
    pub hit: Option<Hit>,
    /// Issued before the entry was looked for.
    pub ticket: T,
}

/// An entry that a cache keeps.
#[derive(Clone, PartialEq, Eq)]
pub struct Hit {
    /// The bytes that were stored.
    pub entry: Bytes,
    /// The time since the ticket was issued under which the entry was stored, by the cache's clock;
    /// rounded up where it is rounded.
    pub age: Duration,
    /// How long the cache will keep the entry yet, by its clock; rounded down where it is rounded.
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
