//! [`MutantStore`]: a handle, and the state that all handles share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem_core::{ClaimOutcome, Completed, Key};

use super::row::{Held, Mark, Row};
use super::{Bug, disguise};

/// The state that all handles share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) rows: BTreeMap<Vec<String>, Row>,
    pub(super) marks: BTreeMap<Vec<String>, Mark>,
    /// Keys of running calls, for [`Bug::PoisonedByDrop`].
    pub(super) busy: BTreeSet<Vec<String>>,
    /// The committed rows of the keys that open transactions hold.
    pub(super) held: BTreeMap<Vec<String>, Held>,
    /// Calls that wait for a transaction, for [`Bug::WaitsForTransactions`].
    pub(super) waiting: usize,
    pub(super) last_token: i64,
    pub(super) last_now: i64,
}

/// A handle of a store with a bug.
///
/// An application's test that passes on such a store does not test what it seems to:
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use idem_conformance::mutants::{Bug, MutantStore};
/// use idem_core::{Idempotency, Key, Work};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idem_core::Error> {
/// let idempotency = Idempotency::new(MutantStore::new(Bug::LastWriterWins));
/// let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
/// let charges = AtomicU32::new(0);
/// let charge = async |_: Work| {
///     charges.fetch_add(1, Ordering::SeqCst);
///     tokio::task::yield_now().await;
///     Ok::<_, std::io::Error>("receipt 1".to_owned())
/// };
/// let (one, two) = (idempotency.run(&key, &1250, charge), idempotency.run(&key, &1250, charge));
/// let _ = tokio::join!(one, two);
/// assert_eq!(charges.load(Ordering::SeqCst), 2, "a good store lets one caller charge");
/// # Ok(())
/// # }
/// ```
pub struct MutantStore {
    shared: Arc<Mutex<Shared>>,
    pub(super) bug: Bug,
    /// The error of this client's clock, in microseconds.
    skew: i64,
    pub(super) cache: Mutex<BTreeMap<Vec<String>, Completed>>,
    handles: Arc<AtomicI64>,
}

impl MutantStore {
    /// Creates an empty store with this bug.
    #[must_use]
    pub fn new(bug: Bug) -> Self {
        Self {
            shared: Arc::default(),
            bug,
            skew: 0,
            cache: Mutex::default(),
            handles: Arc::default(),
        }
    }

    /// Returns another handle of the same store, for a client with another clock.
    #[must_use]
    pub fn handle(&self) -> Self {
        let hours = match self.handles.fetch_add(1, Ordering::SeqCst) % 3 {
            0 => 0,
            1 => 3_600_000_000,
            _ => -3_600_000_000,
        };
        Self {
            shared: Arc::clone(&self.shared),
            bug: self.bug,
            skew: hours,
            cache: Mutex::default(),
            handles: Arc::clone(&self.handles),
        }
    }

    /// Replaces the rows.
    pub(super) fn replace(&self, shared: Shared) {
        *self.shared() = shared;
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the clock's time; it never goes back.
    pub(super) fn now(&self, shared: &mut Shared) -> i64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = i64::try_from(since_epoch.unwrap_or_default().as_micros()).unwrap_or(i64::MAX);
        shared.last_now = shared.last_now.max(now);
        match self.bug {
            Bug::ClientClock => shared.last_now + self.skew,
            _ => shared.last_now,
        }
    }

    pub(super) fn key(&self, key: &Key) -> Vec<String> {
        disguise::key(self.bug, key)
    }

    /// Returns what this handle remembers, for [`Bug::StaleCache`].
    pub(super) fn remembered(&self, key: &Key) -> Option<Completed> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(&self.key(key)).cloned()
    }

    pub(super) fn remember(&self, key: &Key, outcome: &ClaimOutcome) {
        if let (Bug::StaleCache, ClaimOutcome::Completed(completed)) = (self.bug, outcome) {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.insert(self.key(key), completed.clone());
        }
    }

    /// Pauses so that others get in between, for bugs that need it.
    pub(super) async fn dawdle(&self, bugs: &[Bug]) {
        if bugs.contains(&self.bug) {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
}

/// Shows the bug, not the records.
impl fmt::Debug for MutantStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MutantStore");
        shown.field("bug", &self.bug);
        if self.bug == Bug::DebugShowsKeys {
            shown.field("keys", &self.shared().rows.keys());
        }
        shown.finish_non_exhaustive()
    }
}
