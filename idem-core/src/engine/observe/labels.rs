//! [`OperationLabels`]: a bounded number of names.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use metrics::SharedString;

/// The label of the operations beyond the bound.
const OTHER: &str = "other";

/// Distinguishes a bounded number of names: the first ones seen.
#[derive(Debug)]
pub(super) struct OperationLabels {
    most: usize,
    seen: RwLock<HashSet<Arc<str>>>,
}

impl OperationLabels {
    pub(super) fn new(most: usize, names: impl IntoIterator<Item = String>) -> Self {
        let seen = names.into_iter().map(Arc::from).collect();
        Self {
            most,
            seen: RwLock::new(seen),
        }
    }

    pub(super) fn names(self) -> impl Iterator<Item = String> {
        let seen = self.seen.into_inner();
        let seen = seen.unwrap_or_else(PoisonError::into_inner);
        seen.into_iter().map(|name| name.to_string())
    }

    /// Returns the operation's label.
    pub(super) fn of(&self, operation: &str) -> SharedString {
        if let Some(name) = self.known(operation) {
            return name;
        }
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= self.most && !seen.contains(operation) {
            return SharedString::const_str(OTHER);
        }
        let name: Arc<str> = operation.into();
        seen.insert(Arc::clone(&name));
        SharedString::from_shared(name)
    }

    /// Returns the label of a known name, or `other` when there is no room for a new one.
    fn known(&self, operation: &str) -> Option<SharedString> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        match seen.get(operation) {
            Some(name) => Some(SharedString::from_shared(Arc::clone(name))),
            None if seen.len() >= self.most => Some(SharedString::const_str(OTHER)),
            None => None,
        }
    }
}
