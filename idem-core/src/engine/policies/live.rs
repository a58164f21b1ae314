//! [`LivePolicies`]: policies that may be replaced while runs are under way.

use std::sync::{Arc, PoisonError, RwLock};

use super::Policies;

/// The policies that runs read when they start. Clones share them.
#[derive(Debug, Clone, Default)]
pub(in crate::engine) struct LivePolicies(Arc<RwLock<Arc<Policies>>>);

impl LivePolicies {
    pub(in crate::engine) fn new(policies: Policies) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(policies))))
    }

    pub(in crate::engine) fn get(&self) -> Arc<Policies> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(in crate::engine) fn set(&self, policies: Policies) {
        let policies = Arc::new(policies);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = policies;
    }
}
