//! [`CacheMetrics`]: the results of the cache's calls.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::guard::NoAnswer;

/// Counts since the store was made. Each cache lookup is one of hit, miss, error and skipped.
///
/// An invalidation and a promotion that fail are errors too, so errors may exceed the lookups that
/// failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheMetrics {
    /// Answered by the cache.
    pub hits: u64,
    /// Not in the cache, or no longer live.
    pub misses: u64,
    /// Calls that failed or took longer than their budget, and entries with other bytes than were
    /// stored: garbage, or another key's.
    pub errors: u64,
    /// Calls that were not made: the breaker is open, too many promotions are under way, or the
    /// entry is too large.
    pub skipped: u64,
    /// Entries stored.
    pub promoted: u64,
    /// Entries that the cache refused to store: invalidated in between, memory lost, too late.
    pub refused: u64,
}

/// The live counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    errors: AtomicU64,
    skipped: AtomicU64,
    promoted: AtomicU64,
    refused: AtomicU64,
}

macro_rules! count {
    ($($name:ident => $field:ident),+ $(,)?) => {
        impl Counters {
            $(pub(crate) fn $name(&self) {
                self.$field.fetch_add(1, Ordering::Relaxed);
            })+

            pub(crate) fn snapshot(&self) -> CacheMetrics {
                CacheMetrics { $($field: self.$field.load(Ordering::Relaxed)),+ }
            }
        }
    };
}

count! {
    hit => hits,
    miss => misses,
    error => errors,
    skip => skipped,
    promote => promoted,
    refuse => refused,
}

impl Counters {
    pub(crate) fn no_answer(&self, no_answer: &NoAnswer) {
        match no_answer {
            NoAnswer::Skipped => self.skip(),
            NoAnswer::Failed(_) => self.error(),
        }
    }
}
