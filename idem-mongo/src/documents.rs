//! [`Documents`] and [`WriteTimeout`]: which documents are locked, and how long writes wait.

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
pub(crate) struct WriteTimeout(AtomicU64);

impl WriteTimeout {
    const MIN_MICROS: u64 = MAX_LOCK_WAIT.as_micros() as u64;
    /// If confirmations take longer, each write is sent twice.
    const MAX_MICROS: u64 = 2_000_000;

    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Self::MIN_MICROS))
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// Records that a write was done, but not confirmed within this time.
    pub(crate) fn record_unconfirmed(&self, within: Duration) {
        if within >= self.get() {
            self.set(self.0.load(Ordering::Relaxed).saturating_mul(2));
        }
    }

    /// Records that a write was confirmed after this time. If that is far shorter than the
    /// time-out, the time-out falls slowly back to its minimum.
    pub(crate) fn record_confirmed(&self, took: Duration) {
        let micros = self.0.load(Ordering::Relaxed);
        if micros > Self::MIN_MICROS && took.as_micros() < u128::from(micros / 4) {
            self.set(micros - micros / 64);
        }
    }

    fn set(&self, micros: u64) {
        let micros = micros.clamp(Self::MIN_MICROS, Self::MAX_MICROS);
        self.0.store(micros, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_write_timeout_grows_where_members_confirm_slowly_and_comes_back() {
        let timeout = WriteTimeout::new();
        assert_eq!(timeout.get(), MAX_LOCK_WAIT);
        timeout.record_unconfirmed(Duration::from_millis(10));
        assert_eq!(
            timeout.get(),
            MAX_LOCK_WAIT,
            "a shorter time says nothing about it"
        );
        for _ in 0..10 {
            timeout.record_unconfirmed(timeout.get());
        }
        assert_eq!(timeout.get(), Duration::from_secs(2));
        timeout.record_confirmed(Duration::from_millis(600));
        assert_eq!(timeout.get(), Duration::from_secs(2), "it is needed");
        for _ in 0..1000 {
            timeout.record_confirmed(Duration::from_millis(2));
        }
        assert_eq!(timeout.get(), MAX_LOCK_WAIT);
    }
}
