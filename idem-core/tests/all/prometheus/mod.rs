//! The example exposes, and the dashboard reads, the documented metrics.

mod dashboard;
mod documentation;
mod exposed;
#[path = "../../../examples/prometheus/exposition.rs"]
mod exposition;
#[path = "../../../examples/prometheus/workload.rs"]
mod workload;

use idem_core::engine::observe::{METRICS, Metric, MetricKind};

/// The metric of a time series, which for histograms has a suffix.
fn metric_of(series: &str) -> Option<Metric> {
    let suffixes = ["_bucket", "_sum", "_count"];
    METRICS.into_iter().find(|metric| match metric.kind {
        MetricKind::Histogram => suffixes
            .iter()
            .any(|suffix| series.strip_suffix(suffix) == Some(metric.name)),
        MetricKind::Counter | MetricKind::Gauge => series == metric.name,
    })
}
