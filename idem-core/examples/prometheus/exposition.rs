//! The recorder of the example.

use idem_core::engine::observe::{METRICS, MetricKind, SECONDS_BUCKETS};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusRecorder};

/// Histograms with buckets, as the dashboard reads them; without these they would be summaries.
pub(crate) fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS {
        if metric.kind == MetricKind::Histogram {
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder.set_buckets_for_metric(name, &SECONDS_BUCKETS)?;
        }
    }
    Ok(builder.build_recorder())
}
