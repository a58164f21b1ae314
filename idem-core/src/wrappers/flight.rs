//! [`Flight`]: what makes claims identical.

use crate::{ClaimRequest, FailedPolicy, Fingerprint, Key, StalePolicy};

/// What makes claims identical: who loses is told the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    key: Key,
    fingerprint: Fingerprint,
    on_stale: StalePolicy,
    on_failed: FailedPolicy,
}

impl Flight {
    pub(super) fn of(request: &ClaimRequest) -> Self {
        Self {
            key: request.key().clone(),
            fingerprint: *request.fingerprint(),
            on_stale: request.on_stale(),
            on_failed: request.on_failed(),
        }
    }
}
