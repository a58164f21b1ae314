//! [`Policy`]: how an operation is run.

use std::ops::Not;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BusyPolicy, ErrorPolicy, Exclusion, InterruptPolicy, duration_text};
use crate::backend::check;
use crate::{
    ClaimRequest, Error, FailedPolicy, Fingerprint, Key, Limits, Metadata, Result, StalePolicy,
};

/// How an operation is run: how long its claim and its result last, and what happens without a
/// result.
///
/// | | [`default`](Self::default) | [`at_most_once`](Self::at_most_once) |
/// | --- | --- | --- |
/// | for work that | may be run again when it did not finish | must never run twice, even if it then may not have run at all |
/// | the lease ends without a result | takeover | recorded as abandoned |
/// | the work answers with an error | released | recorded |
/// | the caller goes away, the work panics | released | recorded |
/// | the request is being worked on | refused | refused |
///
/// In files, durations are written `500ms`, `30s`, `15m`, `24h`, `7d`; missing keys have their
/// defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    #[serde(with = "duration_text")]
    lease: Duration,
    #[serde(with = "duration_text")]
    retention: Duration,
    #[serde(with = "duration_text")]
    failure_retention: Duration,
    #[serde(with = "duration_text")]
    retry_timeout: Duration,
    on_busy: BusyPolicy,
    on_error: ErrorPolicy,
    on_cancel: InterruptPolicy,
    on_panic: InterruptPolicy,
    on_stale: StalePolicy,
    on_failed: FailedPolicy,
    exclusion: Exclusion,
    #[serde(skip_serializing_if = "Not::not")]
    requires_transactions: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_result_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_request_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            lease: ClaimRequest::DEFAULT_LEASE,
            retention: ClaimRequest::DEFAULT_RETENTION,
            failure_retention: ClaimRequest::DEFAULT_RETENTION,
            retry_timeout: Self::DEFAULT_RETRY_TIMEOUT,
            on_busy: BusyPolicy::Refuse,
            on_error: ErrorPolicy::Release,
            on_cancel: InterruptPolicy::Release,
            on_panic: InterruptPolicy::Release,
            on_stale: StalePolicy::TakeOver,
            on_failed: FailedPolicy::Replay,
            exclusion: Exclusion::Exclusive,
            requires_transactions: false,
            max_result_bytes: None,
            max_request_bytes: None,
            metadata: Metadata::new(),
        }
    }
}

impl Policy {
    /// 10 seconds.
    pub const DEFAULT_RETRY_TIMEOUT: Duration = Duration::from_secs(10);

    /// For work that must never run twice under one key, for example a payment at a provider
    /// without idempotency keys.
    ///
    /// Every outcome of the work is recorded, and a claim whose holder vanished is failed instead
    /// of taken over. A person then has to check whether the effect happened. The record holds
    /// until the retention ends.
    #[must_use]
    pub fn at_most_once() -> Self {
        Self {
            on_error: ErrorPolicy::Record,
            on_cancel: InterruptPolicy::Record,
            on_panic: InterruptPolicy::Record,
            on_stale: StalePolicy::Fail,
            ..Self::default()
        }
    }

    /// Sets how long a claim is honoured without renewal. Default: 10 s. It is renewed at each
    /// third while the work runs, so it does not limit the work. It limits how long a key stays
    /// blocked after its worker died. It also limits how long the store may be away before the work
    /// sees that the claim may be lost.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long a result is replayed. Default: 24 h.
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Sets how long a recorded failure is replayed, and an abandoned claim kept after its lease.
    /// Default: 24 h.
    #[must_use]
    pub fn with_failure_retention(mut self, retention: Duration) -> Self {
        self.failure_retention = retention;
        self
    }

    /// Sets the retry time-out: how long a store call is repeated when the store cannot be reached,
    /// or the key is contended and the caller does not [wait](Self::with_on_busy). Default: 10 s. A
    /// call without an answer within half of it is repeated. The seal of a result is repeated for a
    /// lease at least. More than a year counts as a year.
    #[must_use]
    pub fn with_retry_timeout(mut self, retry_timeout: Duration) -> Self {
        self.retry_timeout = retry_timeout;
        self
    }

    /// Sets what a caller does while another run works on the request.
    #[must_use]
    pub fn with_on_busy(mut self, policy: BusyPolicy) -> Self {
        self.on_busy = policy;
        self
    }

    /// Sets what becomes of the claim when the work returns an error.
    #[must_use]
    pub fn with_on_error(mut self, policy: ErrorPolicy) -> Self {
        self.on_error = policy;
        self
    }

    /// Sets what becomes of the claim when the run is dropped while the work runs.
    #[must_use]
    pub fn with_on_cancel(mut self, policy: InterruptPolicy) -> Self {
        self.on_cancel = policy;
        self
    }

    /// Sets what becomes of the claim when the work panics.
    #[must_use]
    pub fn with_on_panic(mut self, policy: InterruptPolicy) -> Self {
        self.on_panic = policy;
        self
    }

    /// Sets what happens when a lease ends without a result.
    #[must_use]
    pub fn with_on_stale(mut self, policy: StalePolicy) -> Self {
        self.on_stale = policy;
        self
    }

    /// Sets what a claim does that meets a recorded failure.
    #[must_use]
    pub fn with_on_failed(mut self, policy: FailedPolicy) -> Self {
        self.on_failed = policy;
        self
    }

    /// Demands that each result commits together with the work's rows: in
    /// [`run_in`](crate::Idempotency::run_in), or by [`Work::commit`](crate::Work::commit). A work that
    /// returns a value without that is [`RunError::NotStored`](crate::RunError::NotStored) at its
    /// first call, and the key is failed as [`NOT_STORED`](crate::Failure::NOT_STORED), because the
    /// work has run. Seals that the engine does not see, such as a store's own `complete_in`, do not
    /// count. Default: not demanded.
    #[must_use]
    pub fn with_transactions_required(mut self) -> Self {
        self.requires_transactions = true;
        self
    }

    /// Sets what keeps others from a key while work in a transaction runs.
    #[must_use]
    pub fn with_exclusion(mut self, exclusion: Exclusion) -> Self {
        self.exclusion = exclusion;
        self
    }

    /// Sets a limit for results in stored form, below the store's own.
    #[must_use]
    pub fn with_max_result_bytes(mut self, bytes: usize) -> Self {
        self.max_result_bytes = Some(bytes);
        self
    }

    /// Sets a limit for requests, in bytes of canonical JSON: a larger one is refused before
    /// anything is sent. A caller that brings a fingerprint must call
    /// [`check_request`](Self::check_request) itself.
    #[must_use]
    pub fn with_max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = Some(bytes);
        self
    }

    /// Sets the metadata that each claim leaves on its record for people.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Returns the lease.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns how long a result is replayed.
    #[must_use]
    pub fn retention(&self) -> Duration {
        self.retention
    }

    /// Returns how long a recorded failure is replayed.
    #[must_use]
    pub fn failure_retention(&self) -> Duration {
        self.failure_retention
    }

    /// Returns the retry time-out: how long a failed store call is repeated.
    #[must_use]
    pub fn retry_timeout(&self) -> Duration {
        self.retry_timeout
    }

    /// Returns what a caller does while another run works on the request.
    #[must_use]
    pub fn on_busy(&self) -> BusyPolicy {
        self.on_busy
    }

    /// Returns what becomes of the claim when the work returns an error.
    #[must_use]
    pub fn on_error(&self) -> ErrorPolicy {
        self.on_error
    }

    /// Returns what becomes of the claim when the run is dropped while the work runs.
    #[must_use]
    pub fn on_cancel(&self) -> InterruptPolicy {
        self.on_cancel
    }

    /// Returns what becomes of the claim when the work panics.
    #[must_use]
    pub fn on_panic(&self) -> InterruptPolicy {
        self.on_panic
    }

    /// Returns what happens when a lease ends without a result.
    #[must_use]
    pub fn on_stale(&self) -> StalePolicy {
        self.on_stale
    }

    /// Returns what a claim does that meets a recorded failure.
    #[must_use]
    pub fn on_failed(&self) -> FailedPolicy {
        self.on_failed
    }

    /// Returns whether each result has to commit together with the work's rows.
    #[must_use]
    pub fn requires_transactions(&self) -> bool {
        self.requires_transactions
    }

    /// Returns what keeps others from a key while work in a transaction runs.
    #[must_use]
    pub fn exclusion(&self) -> Exclusion {
        self.exclusion
    }

    /// Returns the limit for results, if there is one beside the store's.
    #[must_use]
    pub fn max_result_bytes(&self) -> Option<usize> {
        self.max_result_bytes
    }

    /// Returns the limit for requests, if there is one.
    #[must_use]
    pub fn max_request_bytes(&self) -> Option<usize> {
        self.max_request_bytes
    }

    /// Returns the metadata that each claim leaves on its record.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Checks that a store with these limits accepts the claims of this policy.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a duration that is zero or too long,
    /// and for over-large metadata; every run makes this check before anything is sent.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        check::lease(self.lease)?;
        check::retention(self.retention)?;
        check::retention(self.failure_retention)?;
        check::metadata(&self.metadata, limits)?;
        if self.retry_timeout.is_zero() {
            return Err(Error::invalid_input(
                "the retry_timeout is zero; it is the time that the store is given to answer",
            ));
        }
        Ok(())
    }

    /// Checks that a request of this size is within the limit.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is not.
    pub fn check_request(&self, bytes: usize) -> Result<()> {
        match self.max_request_bytes {
            Some(most) if bytes > most => Err(Error::invalid_input(format!(
                "the request has {bytes} bytes, at most {most} are allowed for its operation"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the claim that this policy makes.
    pub(super) fn request(&self, key: Key, fingerprint: Fingerprint) -> ClaimRequest {
        ClaimRequest::new(key, fingerprint)
            .with_lease(self.lease)
            .with_retention(self.failure_retention)
            .with_on_stale(self.on_stale)
            .with_on_failed(self.on_failed)
            .with_metadata(self.metadata.clone())
    }

    /// Returns the limits for a result.
    pub(super) fn limits(&self, store: Limits) -> Limits {
        let own = self.max_result_bytes.unwrap_or(usize::MAX);
        store.with_max_result_bytes(store.max_result_bytes.min(own))
    }

    /// Returns how long one store call may take before it is repeated.
    pub(super) fn try_limit(&self) -> Duration {
        self.retry_timeout / 2
    }

    /// Returns how long the seal of a result is repeated.
    pub(super) fn seal_limit(&self) -> Duration {
        self.retry_timeout.max(self.lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_as_people_write_it() {
        let text = r#"{"lease": "5m", "on_busy": {"wait": {"limit": "750ms"}}, "on_stale": "fail",
            "on_cancel": "let_expire", "metadata": {"host": "a"}}"#;
        let policy: Policy = serde_json::from_str(text).unwrap();
        let expected = Policy::default()
            .with_lease(Duration::from_secs(300))
            .with_on_busy(BusyPolicy::wait(Duration::from_millis(750)))
            .with_on_stale(StalePolicy::Fail)
            .with_on_cancel(InterruptPolicy::LetExpire)
            .with_metadata(Metadata::new().with("host", "a"));
        assert_eq!(policy, expected);
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
        assert!(serde_json::from_str::<Policy>(r#"{"leese": "5m"}"#).is_err());
    }

    #[test]
    fn a_policy_that_a_store_would_refuse_is_refused_before() {
        let limits = Limits::DEFAULT;
        assert!(Policy::default().check(&limits).is_ok());
        assert!(Policy::at_most_once().check(&limits).is_ok());
        for policy in [
            Policy::default().with_lease(Duration::ZERO),
            Policy::default().with_retention(Duration::MAX),
            Policy::default().with_failure_retention(Duration::ZERO),
            Policy::default().with_retry_timeout(Duration::ZERO),
            Policy::default().with_metadata(Metadata::new().with("a", "b".repeat(5000))),
        ] {
            assert!(policy.check(&limits).is_err(), "{policy:?}");
        }
    }
}
