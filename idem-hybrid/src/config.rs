//! [`Config`]: how the store uses the cache.

use std::time::Duration;

/// In which order a claim reads the cache and the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Reads {
    /// The cache first, and the database only when the cache has no answer. A hit does no work in
    /// the database; a miss costs one read of the cache more than the database alone.
    #[default]
    CacheFirst,
    /// Both at once; the first answer decides. A miss costs no more time than the database alone,
    /// but every claim does work in the database.
    ///
    /// The database's claim is never dropped half-way: it runs in a task of its own. If it
    /// *acquires* the key after the cache has answered (the record expired or was deleted in that
    /// moment), it is released at once.
    Together,
}

/// The longest budget and pause. Longer ones have no use, and the clock cannot represent instants
/// that far away.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Budgets, bounds and the breaker. Budgets and pauses are a day at most. All have defaults that
/// suit a cache in the same data centre.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub(crate) reads: Reads,
    pub(crate) budget: Duration,
    pub(crate) background_budget: Duration,
    pub(crate) max_lifetime: Duration,
    pub(crate) max_entry_bytes: usize,
    pub(crate) max_background: u32,
    pub(crate) breaker_threshold: u32,
    pub(crate) breaker_pause: Duration,
    pub(crate) breaker_max_pause: Duration,
}

impl Config {
    /// Creates the defaults: the cache first; 50 ms for a call that a caller waits for, 1 s for one
    /// in the background and for [`invalidate`](crate::HybridStore::invalidate); entries for an
    /// hour and of 1 MiB at most; 64 background tasks; a breaker that opens after 5 failures in a
    /// row, for 100 ms doubling to 10 s.
    #[must_use]
    pub fn new() -> Self {
        Self {
            reads: Reads::default(),
            budget: Duration::from_millis(50),
            background_budget: Duration::from_secs(1),
            max_lifetime: Duration::from_secs(60 * 60),
            max_entry_bytes: 1 << 20,
            max_background: 64,
            breaker_threshold: 5,
            breaker_pause: Duration::from_millis(100),
            breaker_max_pause: Duration::from_secs(10),
        }
    }

    /// Sets in which order a claim reads cache and database.
    #[must_use]
    pub fn with_reads(mut self, reads: Reads) -> Self {
        self.reads = reads;
        self
    }

    /// Sets how long a caller waits for the cache at most before it sends the claim to the
    /// database.
    #[must_use]
    pub fn with_budget(mut self, budget: Duration) -> Self {
        self.budget = budget.min(MAX_TIME);
        self
    }

    /// Sets how long a promotion, for which no caller waits, and an operator's invalidation may
    /// take.
    #[must_use]
    pub fn with_background_budget(mut self, budget: Duration) -> Self {
        self.background_budget = budget.min(MAX_TIME);
        self
    }

    /// Sets how long an entry is kept at most, where the record lives longer. It bounds how long a
    /// record is replayed that was deleted from the database without an invalidation.
    #[must_use]
    pub fn with_max_lifetime(mut self, lifetime: Duration) -> Self {
        self.max_lifetime = lifetime;
        self
    }

    /// Sets the size (key, response and some 120 bytes) above which entries are not cached.
    #[must_use]
    pub fn with_max_entry_bytes(mut self, bytes: usize) -> Self {
        self.max_entry_bytes = bytes;
        self
    }

    /// Sets how many promotions run at once at most, up to 65,536; more are skipped. Each holds an
    /// entry in memory.
    #[must_use]
    pub fn with_max_background(mut self, tasks: u32) -> Self {
        self.max_background = tasks.min(1 << 16);
        self
    }

    /// Sets after how many failures or time-outs in a row the breaker opens; at least 1.
    #[must_use]
    pub fn with_breaker_threshold(mut self, failures: u32) -> Self {
        self.breaker_threshold = failures;
        self
    }

    /// Sets how long the breaker stays open before a probe: this long at first, twice as long after
    /// each probe that fails, at most `max`. No caller waits for a probe, which runs in the
    /// background.
    #[must_use]
    pub fn with_breaker_pause(mut self, pause: Duration, max: Duration) -> Self {
        self.breaker_pause = pause.min(MAX_TIME);
        self.breaker_max_pause = max.min(MAX_TIME);
        self
    }

    /// Returns in which order a claim reads cache and database.
    #[must_use]
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// Returns how long a caller waits for the cache at most.
    #[must_use]
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// Returns how long an entry is kept at most.
    #[must_use]
    pub fn max_lifetime(&self) -> Duration {
        self.max_lifetime
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_without_end_are_a_day() {
        let config = Config::new()
            .with_budget(Duration::MAX)
            .with_background_budget(Duration::MAX)
            .with_breaker_pause(Duration::MAX, Duration::MAX);
        for long in [
            config.budget,
            config.background_budget,
            config.breaker_pause,
            config.breaker_max_pause,
        ] {
            assert_eq!(long, MAX_TIME);
        }
    }
}
