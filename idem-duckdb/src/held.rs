//! [`HeldKeys`]: the records and marks that open transactions of this process have written.
//!
//! DuckDB has no locks. Beside an open transaction with the claim of a fresh key, another claim
//! would win, and a step of the claim's holder would find no record and call the claim lost. One
//! process has the file open, so it knows of all such transactions: their keys are held here until
//! they end, and others wait for a moment or get `Contention`. This is courtesy and spares work;
//! that one of two writers fails is DuckDB's own doing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idem_core::Key;

/// A record or a mark.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    Record(String),
    Mark(String),
}

impl Name {
    pub(crate) fn record(key: &Key) -> Self {
        Self::Record(key.path())
    }

    pub(crate) fn mark(source: &Key) -> Self {
        Self::Mark(source.path())
    }
}

/// The names that are held, each by one transaction.
#[derive(Debug, Default)]
pub(crate) struct HeldKeys {
    names: Mutex<HashMap<Name, u64>>,
    last: AtomicU64,
}

impl HeldKeys {
    pub(crate) fn is_held(&self, name: &Name) -> bool {
        self.names().contains_key(name)
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Name, u64>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names that one transaction holds, until this is dropped.
#[derive(Debug)]
pub(crate) struct Holder {
    keys: Arc<HeldKeys>,
    id: u64,
}

impl Holder {
    pub(crate) fn new(keys: Arc<HeldKeys>) -> Self {
        let id = keys.last.fetch_add(1, Ordering::Relaxed);
        Self { keys, id }
    }

    /// Holds the name; `false` while another transaction does.
    pub(crate) fn hold(&self, name: &Name) -> bool {
        *self.keys.names().entry(name.clone()).or_insert(self.id) == self.id
    }

    /// Returns whether another transaction holds the name.
    pub(crate) fn is_held_elsewhere(&self, name: &Name) -> bool {
        let names = self.keys.names();
        names.get(name).is_some_and(|holder| *holder != self.id)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.keys.names().retain(|_, holder| *holder != self.id);
    }
}
