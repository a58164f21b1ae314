//! [`Waiting`]: the runs of this process that wait for another run's result.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::Key;
use crate::backend::Subscription;

/// Bounds the waiting runs, and notifies them when a claim of this process ends.
#[derive(Debug)]
pub(super) struct Waiting {
    permits: Arc<Semaphore>,
    /// The keys whose transactions are open in this process.
    open: Mutex<HashSet<Key>>,
    channels: Mutex<HashMap<Key, watch::Sender<u64>>>,
}

impl Waiting {
    /// Allows at most this many waiting runs.
    pub(super) fn new(most: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            open: Mutex::default(),
            channels: Mutex::default(),
        }
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<Key, watch::Sender<u64>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a permit to wait, until it is dropped; `None` when all are taken.
    pub(super) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Listens for the end of claims of this key in this process.
    pub(super) fn listen(self: &Arc<Self>, key: &Key) -> Subscription {
        let mut channels = self.channels();
        let channel = channels.entry(key.clone()).or_default();
        Subscription::new(channel.subscribe()).with_guard(Leaving {
            waiting: Arc::clone(self),
            key: key.clone(),
        })
    }

    fn open(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the key as that of an open transaction; `None` where it is one already.
    pub(super) fn begin(self: &Arc<Self>, key: &Key) -> Option<OpenKey> {
        let is_new = self.open().insert(key.clone());
        is_new.then(|| OpenKey {
            waiting: Arc::clone(self),
            key: key.clone(),
        })
    }

    /// Notifies the runs that wait for this key that a claim has ended.
    pub(super) fn ended(&self, key: &Key) {
        if let Some(channel) = self.channels().get(key) {
            channel.send_modify(|count| *count += 1);
        }
    }
}

/// A key whose transaction is open in this process.
#[derive(Debug)]
pub(super) struct OpenKey {
    waiting: Arc<Waiting>,
    key: Key,
}

impl Drop for OpenKey {
    fn drop(&mut self) {
        self.waiting.open().remove(&self.key);
        self.waiting.ended(&self.key);
    }
}

/// The last listener removes the channel.
struct Leaving {
    waiting: Arc<Waiting>,
    key: Key,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut channels = self.waiting.channels();
        let is_unheard = |channel: &watch::Sender<u64>| channel.receiver_count() == 0;
        if channels.get(&self.key).is_some_and(is_unheard) {
            channels.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> Key {
        Key::new("tenant", "pay", id).unwrap()
    }

    #[tokio::test]
    async fn only_callers_that_wait_for_the_key_are_notified() {
        let waiting = Arc::new(Waiting::new(1));
        waiting.ended(&key("a"));
        let mut a = waiting.listen(&key("a"));
        let mut b = waiting.listen(&key("b"));
        waiting.ended(&key("a"));
        a.changed().await;
        let changed = tokio::time::timeout(std::time::Duration::from_millis(20), b.changed());
        assert!(changed.await.is_err());
    }

    #[test]
    fn nothing_is_left_when_the_last_one_has_gone() {
        let waiting = Arc::new(Waiting::new(1));
        let one = waiting.listen(&key("a"));
        let two = waiting.listen(&key("a"));
        drop(one);
        assert_eq!(waiting.channels().len(), 1);
        drop(two);
        assert!(waiting.channels().is_empty());
    }

    #[test]
    fn places_are_given_back() {
        let waiting = Waiting::new(1);
        let permit = waiting.permit();
        assert!(permit.is_some() && waiting.permit().is_none());
        drop(permit);
        assert!(waiting.permit().is_some());
        assert!(Waiting::new(usize::MAX).permit().is_some());
    }
}
