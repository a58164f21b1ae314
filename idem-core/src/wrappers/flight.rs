//! [`Flight`]: the properties that make claims identical.

use crate::{ClaimRequest, FailedPolicy, Fingerprint, Key, StalePolicy};

/// The properties that make claims identical: all losers get the same answer.
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
