//! [`MetricsObserver`].

use std::time::Duration;

use metrics::{
    SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use super::labels::OperationLabels;
use super::metric::names;
use super::scope_class::ScopeClass;
use super::{Decision, Ended, LeaseLoss, METRICS, MetricKind, Observer, Retry};
use crate::Key;

/// Counts and measures through the `metrics` facade, for any installed exporter. [`METRICS`] lists
/// the metrics.
///
/// ```
/// use idem_core::engine::observe::MetricsObserver;
/// use idem_core::{Idempotency, MemoryStore};
///
/// MetricsObserver::describe(); // once, after the exporter is installed
/// let class = |scope: &str| if scope.starts_with("trial-") { "trial" } else { "paying" };
/// let observer = MetricsObserver::new().with_scope_class(class);
/// let idem = Idempotency::new(MemoryStore::new()).with_observer(observer);
/// # let _ = idem;
/// ```
///
/// The number of time series is bounded. The label `operation` has at most 100 values
/// ([`with_max_operations`](Self::with_max_operations)); later ones become `other`. `scope_class`
/// is the result of the application's function ([`with_scope_class`](Self::with_scope_class)), by
/// default `all`. No label holds a scope or an id.
#[derive(Debug)]
pub struct MetricsObserver {
    operations: OperationLabels,
    scope_class: ScopeClass,
}

impl Default for MetricsObserver {
    fn default() -> Self {
        Self {
            operations: OperationLabels::new(Self::DEFAULT_MAX_OPERATIONS, []),
            scope_class: ScopeClass::default(),
        }
    }
}

impl MetricsObserver {
    /// 100 operations.
    pub const DEFAULT_MAX_OPERATIONS: usize = 100;

    /// Creates an observer with at most 100 names of operations, and one class for all scopes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Distinguishes at most this many operations: the first ones seen.
    #[must_use]
    pub fn with_max_operations(mut self, most: usize) -> Self {
        self.operations = OperationLabels::new(most, self.operations.names());
        self
    }

    /// Distinguishes exactly these operations, in whatever order they are seen.
    #[must_use]
    pub fn with_operations<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.operations = OperationLabels::new(names.len(), names);
        self
    }

    /// Sets the class of a scope, such as `free` and `paying`, or a region; keep the classes few.
    #[must_use]
    pub fn with_scope_class(
        mut self,
        class: impl Fn(&str) -> &'static str + Send + Sync + 'static,
    ) -> Self {
        self.scope_class = ScopeClass::by(class);
        self
    }

    /// Describes each metric and its unit to the installed recorder. Call it once, after the
    /// recorder is installed.
    pub fn describe() {
        for metric in METRICS {
            match metric.kind {
                MetricKind::Counter => describe_counter!(metric.name, Unit::Count, metric.help),
                MetricKind::Gauge => describe_gauge!(metric.name, Unit::Count, metric.help),
                MetricKind::Histogram => {
                    describe_histogram!(metric.name, Unit::Seconds, metric.help);
                }
            }
        }
    }

    fn operation(&self, key: &Key) -> SharedString {
        self.operations.of(key.operation())
    }

    /// Counts one more with this label.
    fn count(&self, name: &'static str, key: &Key, label: &'static str, value: &'static str) {
        let scope_class = self.scope_class.of(key.scope());
        let labels = [
            ("operation", self.operation(key)),
            ("scope_class", scope_class.into()),
            (label, value.into()),
        ];
        counter!(name, &labels).increment(1);
    }
}

impl Observer for MetricsObserver {
    fn decided(&self, key: &Key, decision: Decision) {
        self.count(names::DECISIONS, key, "decision", decision.name());
    }

    fn ended(&self, key: &Key, ended: &Ended) {
        self.count(names::ENDINGS, key, "ending", ended.ending.name());
        if let Some(since) = ended.since_first_seen {
            let labels = [
                ("operation", self.operation(key)),
                ("scope_class", self.scope_class.of(key.scope()).into()),
            ];
            histogram!(names::FIRST_SEEN_TO_SEALED, &labels).record(since);
        }
    }

    fn lease_lost(&self, key: &Key, loss: LeaseLoss) {
        self.count(names::LEASE_LOSSES, key, "cause", loss.name());
    }

    fn unstored(&self, key: &Key, reason: &'static str) {
        self.count(names::UNSTORED, key, "reason", reason);
    }

    fn retried(&self, key: &Key, retry: Retry) {
        let labels = [
            ("operation", self.operation(key)),
            ("call", retry.call.into()),
            ("kind", retry.kind_name().into()),
        ];
        counter!(names::STORE_RETRIES, &labels).increment(1);
    }

    fn wait_began(&self, key: &Key) {
        gauge!(names::WAITERS, "operation" => self.operation(key)).increment(1);
    }

    fn wait_ended(&self, key: &Key, waited: Duration) {
        let operation = self.operation(key);
        gauge!(names::WAITERS, "operation" => operation.clone()).decrement(1);
        histogram!(names::WAITS, "operation" => operation).record(waited);
    }
}
