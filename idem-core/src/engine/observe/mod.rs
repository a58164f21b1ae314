//! What is seen of runs: [`Observer`], and those for `tracing` and `metrics`.
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
//! With the feature `tracing`, `TracingObserver` opens a span around each run and logs what is worth it. With
//! `metrics`, `MetricsObserver` counts and measures, for whatever exporter is installed.

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
