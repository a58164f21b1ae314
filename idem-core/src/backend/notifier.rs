//! [`ChangeNotifier`]: hints that the record of a key has changed.

use std::fmt;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{Key, Result};

/// Something that tells when the record of a key has changed, so that those who wait for it ask at
/// once instead of at their next poll.
///
/// It is a hint: one may be lost, come late, come twice, or come for nothing. Whoever waits polls
/// all the same, and asks the store for the truth.
#[async_trait]
pub trait ChangeNotifier: fmt::Debug + Send + Sync + 'static {
    /// Begins to listen. When it returns, changes that are made from now on are told; one that was
    /// made before is found by asking the store once more.
    ///
    /// # Errors
    ///
    /// That there is nothing to listen to; the caller polls.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    async fn listen(&self, key: &Key) -> Result<Subscription>;
}

/// Listens for changes of one key's record until it is dropped.
pub struct Subscription {
    /// Before the guard, which may look for who still listens when it is dropped.
    changes: watch::Receiver<u64>,
    guard: Option<Box<dyn Send + Sync>>,
}

impl Subscription {
    /// A listener that is told whenever the number is sent anew.
    #[must_use]
    pub fn new(changes: watch::Receiver<u64>) -> Self {
        Self {
            changes,
            guard: None,
        }
    }

    /// The same with something that is dropped after it has stopped to listen.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Send + Sync + 'static) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Waits until the record may have changed since the last call; for ever when nothing is told
    /// any more.
    ///
    /// # Cancellation
    ///
    /// Without effect: nothing is missed by the next call.
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
