//! The text that Prometheus reads.

use std::collections::BTreeSet;

use idem_core::engine::observe::{METRICS, MetricKind, SECONDS_BUCKETS, names};

use super::{exposition, metric_of, workload};

/// A line of the text format: name, labels, value.
type Series = (String, Vec<(String, String)>, f64);

fn exposition() -> String {
    let recorder = exposition::recorder().unwrap();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().unwrap();
        runtime.block_on(workload::some_runs(0)).unwrap();
    });
    handle.render()
}

fn series(line: &str) -> Series {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
        None => (series, ""),
    };
    let label = |label: &str| {
        let (name, value) = label.split_once('=').unwrap();
        let value = value.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
        (name.to_owned(), value.to_owned())
    };
    let labels = labels.split(',').filter(|label| !label.is_empty());
    (
        name.to_owned(),
        labels.map(label).collect(),
        value.parse().unwrap(),
    )
}

fn all(text: &str) -> Vec<Series> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .filter(|line| !line.starts_with('#'))
        .map(series)
        .collect()
}

#[test]
fn every_series_has_a_documented_name_and_exactly_its_labels() {
    let text = exposition();
    for (name, labels, _) in all(&text) {
        let metric = metric_of(&name).unwrap_or_else(|| panic!("{name}"));
        let found: BTreeSet<_> = labels.iter().map(|(label, _)| label.as_str()).collect();
        let mut expected: BTreeSet<_> = metric.labels.iter().copied().collect();
        if name.ends_with("_bucket") {
            expected.insert("le");
        }
        assert_eq!(found, expected, "{name}");
    }
    for secret in ["acme", "trial-7", "request 0"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn each_metric_is_there_with_its_type_and_help() {
    let text = exposition();
    for metric in METRICS {
        // A store in memory needs no repeated call, and only an edge leaves answers unstored.
        if [names::STORE_RETRIES, names::UNSTORED].contains(&metric.name) {
            continue;
        }
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let name = metric.name;
        assert!(
            text.contains(&format!("# TYPE {name} {kind}\n")),
            "{name} {text}"
        );
        assert!(
            text.contains(&format!("# HELP {name} {}\n", metric.help)),
            "{name}"
        );
    }
}

#[test]
fn the_numbers_are_those_of_the_runs() {
    let all = all(&exposition());
    let value = |name: &str, wanted: &[&str]| {
        let mut found = all.iter().filter(|(found, labels, _)| {
            let has = |wanted: &&str| labels.iter().any(|(_, value)| value == wanted);
            found == name && wanted.iter().all(has)
        });
        let value = found.next().map(|(.., value)| *value);
        assert!(found.next().is_none(), "{name} {wanted:?}");
        value
    };
    for (wanted, count) in [
        (["payments.create", "paying", "new"], 1.0),
        (["payments.create", "paying", "duplicate"], 2.0),
        (["payments.create", "paying", "conflict"], 1.0),
        (["payments.create", "trial", "new"], 1.0),
        (["reports.monthly", "paying", "duplicate"], 1.0),
    ] {
        assert_eq!(value(names::DECISIONS, &wanted), Some(count), "{wanted:?}");
    }
    assert_eq!(value(names::LEASE_LOSSES, &["expired"]), Some(1.0));
    assert_eq!(value(names::WAITERS, &[]), Some(0.0));
    assert_eq!(value("idem_wait_seconds_count", &[]), Some(1.0));
    assert_eq!(value(names::CACHE_MISSES, &[]), Some(4.0));
    let buckets = all.iter().filter(|(name, labels, _)| {
        let is_payment = labels.iter().any(|(_, value)| value == "payments.create");
        name == "idem_first_seen_to_sealed_seconds_bucket" && is_payment
    });
    // And one without an upper bound.
    assert_eq!(buckets.count(), SECONDS_BUCKETS.len() + 1);
}
