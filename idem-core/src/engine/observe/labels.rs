//! [`OperationLabels`]: a bounded number of names.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use metrics::SharedString;

/// What the operations beyond the bound are called.
const OTHER: &str = "other";

/// The first so many names that are seen are told apart.
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

    /// The operation's label.
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

    /// Known by name, or because there is no room for another one.
    fn known(&self, operation: &str) -> Option<SharedString> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        match seen.get(operation) {
            Some(name) => Some(SharedString::from_shared(Arc::clone(name))),
            None if seen.len() >= self.most => Some(SharedString::const_str(OTHER)),
            None => None,
        }
    }
}
