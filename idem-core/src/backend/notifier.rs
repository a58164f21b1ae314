//! [`ChangeNotifier`]: hints that the record of a key has changed.

use std::fmt;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{Key, Result};

/// Notifies waiting runs that the record of a key has changed, so that they read it at once instead
/// of at their next poll.
///
/// A notification is a hint: it may be lost, come late, come twice, or come for nothing. A waiting
/// run polls all the same, and reads the truth from the store.
#[async_trait]
pub trait ChangeNotifier: fmt::Debug + Send + Sync + 'static {
    /// Begins to listen. Changes after its return are notified; one more read of the store finds an
    /// earlier one.
    ///
    /// # Errors
    ///
    /// When there is nothing to listen to; the caller polls.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    async fn listen(&self, key: &Key) -> Result<Subscription>;
}

/// Listens for changes of one key's record until it is dropped.
pub struct Subscription {
    /// Dropped before the guard, whose drop may check for remaining listeners.
    changes: watch::Receiver<u64>,
    guard: Option<Box<dyn Send + Sync>>,
}

impl Subscription {
    /// Creates a listener that is notified whenever the number is sent anew.
    #[must_use]
    pub fn new(changes: watch::Receiver<u64>) -> Self {
        Self {
            changes,
            guard: None,
        }
    }

    /// Adds a value that is dropped after the subscription has stopped listening.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Send + Sync + 'static) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Waits until the record may have changed since the last call; waits for ever when no more
    /// notifications can come.
    ///
    /// # Cancellation
    ///
    /// Without effect: the next call misses nothing.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("is_guarded", &self.guard.is_some())
            .finish_non_exhaustive()
    }
}
