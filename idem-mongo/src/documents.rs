//! [`Documents`] and [`Patience`]: which documents are locked, and how long writes wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::backend::{LockedKeys, MAX_LOCK_WAIT};
use mongodb::Collection;
use mongodb::bson::Document;

/// The documents of one collection, and which of them are locked.
#[derive(Debug)]
pub(crate) struct Documents {
    pub(crate) collection: Collection<Document>,
    pub(crate) locked: LockedKeys,
}

impl Documents {
    pub(crate) fn new(collection: Collection<Document>) -> Self {
        Self {
            collection,
            locked: LockedKeys::new(),
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
