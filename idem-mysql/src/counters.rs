//! Counters of lost races.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often statements of a store and its clones lost a race and were sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Contention {
    /// Deadlocks that the server broke, and failed certifications of a Galera cluster (1213), and
    /// rows that changed under a snapshot (1020).
    pub deadlocks: u64,
    /// Statements that met another transaction's lock (1205, 3572).
    pub lock_waits: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    deadlocks: AtomicU64,
    lock_waits: AtomicU64,
}

impl Counters {
    pub(crate) fn count_deadlock(&self) {
        self.deadlocks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_lock_wait(&self) {
        self.lock_waits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Contention {
        Contention {
            deadlocks: self.deadlocks.load(Ordering::Relaxed),
            lock_waits: self.lock_waits.load(Ordering::Relaxed),
        }
    }
}
