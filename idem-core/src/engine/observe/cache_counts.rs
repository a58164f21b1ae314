//! [`CacheCounts`].

use metrics::counter;

use super::metric::names;

/// The counts of a cache in front of a store, to publish from time to time, for example each time
/// that metrics are read. `idem-hybrid` has these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounts {
    /// Replays from the cache.
    pub hits: u64,
    /// Lookups that the cache did not answer.
    pub misses: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls that were not made.
    pub skipped: u64,
    /// Entries stored.
    pub promotions: u64,
    /// Entries that the cache refused to store.
    pub refusals: u64,
}

impl CacheCounts {
    /// Sets the metrics to these numbers; one that is smaller than before changes nothing.
    pub fn publish(&self) {
        for (name, value) in [
            (names::CACHE_HITS, self.hits),
            (names::CACHE_MISSES, self.misses),
            (names::CACHE_ERRORS, self.errors),
            (names::CACHE_SKIPPED, self.skipped),
            (names::CACHE_PROMOTIONS, self.promotions),
            (names::CACHE_REFUSALS, self.refusals),
        ] {
            counter!(name).absolute(value);
        }
    }
}
