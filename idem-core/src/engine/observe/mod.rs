//! Observation of runs: [`Observer`], and the observers for `tracing` and `metrics`.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! use idem_core::engine::observe::{Decision, Observer};
//! use idem_core::{Idempotency, Key, MemoryStore};
//!
//! #[derive(Debug, Default)]
//! struct Duplicates(AtomicU32);
//!
//! impl Observer for Duplicates {
//!     fn decided(&self, _: &Key, decision: Decision) {
//!         if decision == Decision::Duplicate {
//!             self.0.fetch_add(1, Ordering::Relaxed);
//!         }
//!     }
//! }
//!
//! let idem = Idempotency::new(MemoryStore::new()).with_observer(Duplicates::default());
//! # let _ = idem;
//! ```
//!
//! With the feature `tracing`, `TracingObserver` opens a span around each run and logs notable
//! events; it shows the beginning of the key's hash, or with `with_plain_keys` the key. With
//! `metrics`, `MetricsObserver` counts and measures, for any installed exporter.
//!
//! The guide says what to [alert on](crate::guide::monitoring#what-to-alert-on).
//!
//! # Metrics
//!
//! | metric | kind | labels | meaning |
//! | --- | --- | --- | --- |
//! | `idem_decisions_total` | counter | `operation`, `scope_class`, `decision` | runs by the decision about their key: `new`, `takeover`, `duplicate`, `failed`, `in_flight`, `conflict`, `unknown` |
//! | `idem_endings_total` | counter | `operation`, `scope_class`, `ending` | claims by how they ended: `sealed`, `failed`, `released`, `let_expire`, `unsettled` |
//! | `idem_first_seen_to_sealed_seconds` | histogram | `operation`, `scope_class` | from when any attempt first saw a key until its result was stored |
//! | `idem_lease_losses_total` | counter | `operation`, `scope_class`, `cause` | claims lost while their work ran: `overtaken`, `expired` |
//! | `idem_unstored_total` | counter | `operation`, `scope_class`, `reason` | answers that `idem-http` or `idem-actix` did not store: `marked`, `no-store`, `upgrade`, `unread`, `stream`, `unfinished`, `status`, `content`, `broken`, `too-large` |
//! | `idem_store_retries_total` | counter | `operation`, `call`, `kind` | repeated calls of the store, by kind of error |
//! | `idem_waiters` | gauge | `operation` | runs that wait for another run's result now |
//! | `idem_wait_seconds` | histogram | `operation` | how long runs have waited |
//! | `idem_cache_hits_total` | counter | | replays from the cache |
//! | `idem_cache_misses_total` | counter | | lookups that the cache did not answer |
//! | `idem_cache_errors_total` | counter | | calls of the cache that failed |
//! | `idem_cache_skipped_total` | counter | | calls of the cache that were not made |
//! | `idem_cache_promotions_total` | counter | | entries stored in the cache |
//! | `idem_cache_refusals_total` | counter | | entries that the cache refused to store |
//!
//! The number of series is bounded: `operation` has at most 100 values, then `other`
//! (`with_max_operations`, `with_operations`). `scope_class` is the result of `with_scope_class`,
//! by default `all`. No label holds a scope or an id. The cache's numbers come from
//! `HybridStore::metrics` of `idem-hybrid`, through `CacheCounts::publish`.

#[cfg(feature = "metrics")]
mod cache_counts;
mod decision;
mod ended;
#[cfg(feature = "metrics")]
mod labels;
mod lease_loss;
#[cfg(feature = "metrics")]
mod metric;
#[cfg(feature = "metrics")]
mod metrics_observer;
mod observer;
mod observers;
mod retry;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod scope_class;
mod span;
#[cfg(feature = "tracing")]
mod tracing_observer;

#[cfg(feature = "metrics")]
pub use cache_counts::CacheCounts;
pub use decision::Decision;
pub use ended::{Ended, Ending};
pub use lease_loss::LeaseLoss;
#[cfg(feature = "metrics")]
pub use metric::{METRICS, Metric, MetricKind, SECONDS_BUCKETS, names};
#[cfg(feature = "metrics")]
pub use metrics_observer::MetricsObserver;
pub use observer::Observer;
pub(super) use observers::Observers;
pub use retry::Retry;
#[cfg(feature = "tracing")]
pub use tracing_observer::TracingObserver;
