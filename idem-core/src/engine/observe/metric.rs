//! The metrics, by name.

/// The names of all metrics.
pub mod names {
    /// Runs by the decision about their key.
    pub const DECISIONS: &str = "idem_decisions_total";
    /// Claims by how they ended.
    pub const ENDINGS: &str = "idem_endings_total";
    /// The time from when a key was first seen to its seal.
    pub const FIRST_SEEN_TO_SEALED: &str = "idem_first_seen_to_sealed_seconds";
    /// Claims lost while their work ran.
    pub const LEASE_LOSSES: &str = "idem_lease_losses_total";
    /// Answers that an edge did not store.
    pub const UNSTORED: &str = "idem_unstored_total";
    /// Calls of the store that were repeated.
    pub const STORE_RETRIES: &str = "idem_store_retries_total";
    /// Runs that wait for another's result now.
    pub const WAITERS: &str = "idem_waiters";
    /// How long runs have waited for another's result.
    pub const WAITS: &str = "idem_wait_seconds";
    /// Replays from the cache.
    pub const CACHE_HITS: &str = "idem_cache_hits_total";
    /// Lookups that the cache did not answer.
    pub const CACHE_MISSES: &str = "idem_cache_misses_total";
    /// Calls of the cache that failed.
    pub const CACHE_ERRORS: &str = "idem_cache_errors_total";
    /// Calls of the cache that were not made.
    pub const CACHE_SKIPPED: &str = "idem_cache_skipped_total";
    /// Entries stored in the cache.
    pub const CACHE_PROMOTIONS: &str = "idem_cache_promotions_total";
    /// Entries that the cache refused to store.
    pub const CACHE_REFUSALS: &str = "idem_cache_refusals_total";
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution, in seconds.
    Histogram,
}

/// A metric, as it is documented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub help: &'static str,
}

const fn metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        labels,
        help,
    }
}

/// Every metric.
pub const METRICS: [Metric; 14] = {
    use MetricKind::{Counter, Gauge, Histogram};
    [
        metric(
            names::DECISIONS,
            Counter,
            &["operation", "scope_class", "decision"],
            "Runs by their decision: new, takeover, duplicate, failed, in_flight, conflict, unknown",
        ),
        metric(
            names::ENDINGS,
            Counter,
            &["operation", "scope_class", "ending"],
            "Claims by how they ended: sealed, failed, released, let_expire, unsettled",
        ),
        metric(
            names::FIRST_SEEN_TO_SEALED,
            Histogram,
            &["operation", "scope_class"],
            "From when a key was first seen, by any attempt, to its seal",
        ),
        metric(
            names::LEASE_LOSSES,
            Counter,
            &["operation", "scope_class", "cause"],
            "Claims lost while their work ran: overtaken, expired",
        ),
        metric(
            names::UNSTORED,
            Counter,
            &["operation", "scope_class", "reason"],
            "Answers to requests with a key that were not stored, by reason",
        ),
        metric(
            names::STORE_RETRIES,
            Counter,
            &["operation", "call", "kind"],
            "Calls of the store that were repeated, by call and kind of error",
        ),
        metric(
            names::WAITERS,
            Gauge,
            &["operation"],
            "Runs that wait for another's result now",
        ),
        metric(
            names::WAITS,
            Histogram,
            &["operation"],
            "How long runs have waited for another's result",
        ),
        metric(names::CACHE_HITS, Counter, &[], "Replays from the cache"),
        metric(
            names::CACHE_MISSES,
            Counter,
            &[],
            "Cache lookups without a hit",
        ),
        metric(
            names::CACHE_ERRORS,
            Counter,
            &[],
            "Calls of the cache that failed",
        ),
        metric(
            names::CACHE_SKIPPED,
            Counter,
            &[],
            "Calls of the cache that were not made",
        ),
        metric(
            names::CACHE_PROMOTIONS,
            Counter,
            &[],
            "Entries put into the cache",
        ),
        metric(
            names::CACHE_REFUSALS,
            Counter,
            &[],
            "Entries that the cache would not store",
        ),
    ]
};

/// Bounds that suit the histograms: from a millisecond to ten minutes.
pub const SECONDS_BUCKETS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 180.0,
    600.0,
];
