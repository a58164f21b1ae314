//! [`Documents`] and [`Patience`]: which documents are locked, and how long writes wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::Key;
use idem_core::backend::{LockedKeys, MAX_LOCK_WAIT};
use mongodb::Collection;
use mongodb::bson::Document;
use tokio::time::Instant;

/// The documents of one collection, and which of them are locked.
#[derive(Debug)]
pub(crate) struct Documents {
    pub(crate) collection: Collection<Document>,
    pub(crate) locked: LockedKeys,
    looked: Looked,
}

impl Documents {
    pub(crate) fn new(collection: Collection<Document>) -> Self {
        Self {
            collection,
            locked: LockedKeys::new(),
            looked: Looked::default(),
        }
    }

    /// Returns whether a claim of this key may read its record: one claim each moment if the key is
    /// locked.
    pub(crate) fn may_look(&self, key: &Key) -> bool {
        self.looked.is_due(key)
    }

    /// Notes that a claim of this key has met a lock.
    pub(crate) fn was_locked(&self, key: &Key) {
        self.looked.note(key);
    }

    /// Notes that a claim of this key got its outcome.
    pub(crate) fn was_answered(&self, key: &Key) {
        self.looked.forget(key);
    }
}

/// When locked keys were last looked up. Concurrent claims of a locked key share one lookup each
/// moment; otherwise their reads would take server time from other callers.
#[derive(Debug, Default)]
struct Looked {
    keys: Mutex<HashMap<String, Instant>>,
    /// The number of keys, so that callers rarely need the mutex.
    count: AtomicUsize,
}

impl Looked {
    /// The time after which a claim may see what was committed meanwhile; until then it gets
    /// `Contention`.
    const MOMENT: Duration = Duration::from_millis(25);
    /// After this time without claims the key is removed.
    const LONGEST: Duration = Duration::from_secs(2);
    const MOST: usize = 1024;

    fn keys(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this caller may look the key up: no lock is known, or the last lookup is
    /// more than a moment ago.
    fn is_due(&self, key: &Key) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return true;
        }
        match self.keys().get_mut(&key.path()) {
            Some(looked) if looked.elapsed() < Self::MOMENT => false,
            Some(looked) => {
                *looked = Instant::now();
                true
            }
            None => true,
        }
    }

    fn note(&self, key: &Key) {
        let mut keys = self.keys();
        if keys.len() >= Self::MOST {
            keys.retain(|_, looked| looked.elapsed() < Self::LONGEST);
        }
        // The caller that finds the first lock looks up at once, also for all that met the lock
        // with it.
        let before = Instant::now().checked_sub(Self::MOMENT);
        keys.entry(key.path())
            .or_insert_with(|| before.unwrap_or_else(Instant::now));
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    fn forget(&self, key: &Key) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut keys = self.keys();
            keys.remove(&key.path());
            self.count.store(keys.len(), Ordering::Relaxed);
        }
    }
}

/// How long a write may take before the store checks whether its document is locked:
/// [`MAX_LOCK_WAIT`], or longer if members confirm slowly. A checked write is sent twice.
#[derive(Debug)]
pub(crate) struct Patience(AtomicU64);

impl Patience {
    const LEAST: u64 = MAX_LOCK_WAIT.as_micros() as u64;
    /// The upper limit; if confirmations take longer, each write is sent twice.
    const MOST: u64 = 2_000_000;

    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Self::LEAST))
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// Notes that a write was done, and not confirmed within this time.
    pub(crate) fn was_too_short(&self, within: Duration) {
        if within >= self.get() {
            self.set(self.0.load(Ordering::Relaxed).saturating_mul(2));
        }
    }

    /// Notes that a write was confirmed after this time: if that is far shorter, the limit falls
    /// slowly back to the least.
    pub(crate) fn learn(&self, took: Duration) {
        let patience = self.0.load(Ordering::Relaxed);
        if patience > Self::LEAST && took.as_micros() < u128::from(patience / 4) {
            self.set(patience - patience / 64);
        }
    }

    fn set(&self, micros: u64) {
        let micros = micros.clamp(Self::LEAST, Self::MOST);
        self.0.store(micros, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_key_is_looked_for_once_a_moment() {
        let key = |id| Key::new("tenant", "pay", id).unwrap();
        let (looked, locked, other) = (Looked::default(), key("one"), key("other"));
        assert!(looked.is_due(&locked) && looked.is_due(&locked));
        looked.note(&locked);
        let begun = Instant::now();
        assert!(looked.is_due(&locked));
        looked.note(&locked);
        assert!(!looked.is_due(&locked) || begun.elapsed() >= Looked::MOMENT);
        assert!(looked.is_due(&other) && looked.is_due(&other));
        std::thread::sleep(2 * Looked::MOMENT);
        assert!(looked.is_due(&locked));
        looked.forget(&locked);
        assert!(looked.is_due(&locked) && looked.is_due(&locked));
    }

    #[test]
    fn patience_grows_where_members_confirm_slowly_and_comes_back() {
        let patience = Patience::new();
        assert_eq!(patience.get(), MAX_LOCK_WAIT);
        patience.was_too_short(Duration::from_millis(10));
        assert_eq!(
            patience.get(),
            MAX_LOCK_WAIT,
            "of a shorter time it says nothing"
        );
        for _ in 0..10 {
            patience.was_too_short(patience.get());
        }
        assert_eq!(patience.get(), Duration::from_secs(2));
        patience.learn(Duration::from_millis(600));
        assert_eq!(patience.get(), Duration::from_secs(2), "it is needed");
        for _ in 0..1000 {
            patience.learn(Duration::from_millis(2));
        }
        assert_eq!(patience.get(), MAX_LOCK_WAIT);
    }
}
