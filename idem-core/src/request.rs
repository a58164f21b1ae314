//! [`ClaimRequest`]: one claim, as a caller sends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{AttemptId, Fingerprint, Key, Metadata};

/// What happens to a claim whose lease has ended without a result.
///
/// Only the operation's owner knows whether the work may run again, so it is part of each claim and
/// kept with the record. A takeover needs both sides: the record's claim and the new one say
/// [`TakeOver`](Self::TakeOver). Otherwise the record is failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StalePolicy {
    /// Another caller acquires the key and the work runs again.
    #[default]
    TakeOver,
    /// The record becomes failed, with [`Failure::ABANDONED`](crate::Failure::ABANDONED): by the
    /// next claim of the key or by `fail_abandoned`, whichever comes first.
    Fail,
}

/// What a claim does when it meets a recorded failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedPolicy {
    /// It gets the stored failure.
    #[default]
    Replay,
    /// It acquires the key, and the work is tried again.
    Retry,
}

/// One try to claim a key.
///
/// Make it once per try, and send it again unchanged when an answer was lost: it carries the
/// attempt id by which the store recognises the try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    key: Key,
    fingerprint: Fingerprint,
    attempt: AttemptId,
    lease: Duration,
    retention: Duration,
    on_stale: StalePolicy,
    on_failed: FailedPolicy,
    metadata: Metadata,
    #[serde(skip)]
    unsent: Unsent,
}

/// Whether this attempt was never sent, as far as can be known: clones share it, and an attempt
/// from elsewhere may have been sent there.
#[derive(Debug, Clone, Default)]
struct Unsent(Arc<AtomicBool>);

impl PartialEq for Unsent {
    /// It is not part of the request.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Unsent {}

impl ClaimRequest {
    /// 10 seconds.
    pub const DEFAULT_LEASE: Duration = Duration::from_secs(10);
    /// 24 hours.
    pub const DEFAULT_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

    /// Creates a claim with a new random attempt id, a lease of 10 s, a retention of 24 h for the
    /// case that it is abandoned, takeover when stale, and recorded failures replayed.
    #[must_use]
    pub fn new(key: Key, fingerprint: Fingerprint) -> Self {
        Self {
            key,
            fingerprint,
            attempt: AttemptId::random(),
            lease: Self::DEFAULT_LEASE,
            retention: Self::DEFAULT_RETENTION,
            on_stale: StalePolicy::default(),
            on_failed: FailedPolicy::default(),
            metadata: Metadata::new(),
            unsent: Unsent(Arc::new(AtomicBool::new(true))),
        }
    }

    /// Sets how long the claim is honoured without renewal; 1 ms to
    /// [`MAX_LEASE`](crate::limits::MAX_LEASE).
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long the record is kept after its lease if its holder does nothing more; 1 ms to
    /// [`MAX_RETENTION`](crate::limits::MAX_RETENTION). Until then the key is taken over or failed,
    /// after that it is fresh, also for another fingerprint.
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Sets what happens when a lease has ended.
    #[must_use]
    pub fn with_on_stale(mut self, policy: StalePolicy) -> Self {
        self.on_stale = policy;
        self
    }

    /// Sets what happens when a failure is recorded.
    #[must_use]
    pub fn with_on_failed(mut self, policy: FailedPolicy) -> Self {
        self.on_failed = policy;
        self
    }

    /// Sets the metadata that is left on the record for people.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets another attempt id; for tests and for callers that keep their own.
    #[must_use]
    pub fn with_attempt(mut self, attempt: AttemptId) -> Self {
        self.attempt = attempt;
        self.unsent = Unsent::default();
        self
    }

    /// Sets another fingerprint.
    #[cfg(feature = "encryption")]
    pub(crate) fn with_fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = fingerprint;
        self
    }

    /// Returns whether this attempt was never sent before. From now on it counts as sent.
    pub(crate) fn is_first(&self) -> bool {
        self.unsent.0.swap(false, Ordering::Relaxed)
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the request's fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Returns the id of this try.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// Returns the lease.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns the retention of an abandoned record.
    #[must_use]
    pub fn retention(&self) -> Duration {
        self.retention
    }

    /// Returns what happens when a lease has ended.
    #[must_use]
    pub fn on_stale(&self) -> StalePolicy {
        self.on_stale
    }

    /// Returns what happens when a failure is recorded.
    #[must_use]
    pub fn on_failed(&self) -> FailedPolicy {
        self.on_failed
    }

    /// Returns the metadata that is left on the record for people.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
