//! What `MetricsObserver` counts.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use idem_core::engine::observe::{CacheCounts, METRICS, MetricKind, MetricsObserver, names};
use idem_core::{BusyPolicy, Idempotency, Key, MemoryStore, Work};
use metrics::Unit;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshot};

use super::support::{Effects, Fault, MINUTES, Scripted, calm, counted, idem, key};

/// Returns the metrics recorded while this ran on a runtime of one thread.
fn recorded(act: impl AsyncFnOnce()) -> Snapshot {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().start_paused(true).build();
        runtime.unwrap().block_on(act());
    });
    recorder.snapshotter().snapshot()
}

/// Returns `name{label=value,…}` with the value; for a histogram, with the number of its samples.
fn flat(snapshot: Snapshot) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for (found, _, _, value) in snapshot.into_vec() {
        let found = found.key();
        let labels = found.labels();
        let labels: Vec<_> = labels
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        all.insert(format!("{}{{{}}}", found.name(), labels.join(",")), value);
    }
    all
}

#[test]
fn decisions_endings_and_times_are_counted_by_operation_and_scope_class() {
    let all = flat(recorded(async || {
        let class = |scope: &str| if scope == "tenant" { "paying" } else { "free" };
        let observer = MetricsObserver::new().with_scope_class(class);
        let idem = idem(&Scripted::new(), calm()).with_observer(observer);
        let work = |_: Work| counted(Effects::default());
        for request in [1, 1, 1, 2] {
            let _ = idem.run(key(), &request, work).await;
        }
        let other = Key::new("guest", "operation", "request").unwrap();
        let fails = async |_: Work| Err::<(), _>(io::Error::other("no"));
        let _ = idem.run(&other, &1, fails).await;
        idem.note_unstored(&other, "status");
    }));
    let expected = [
        (
            "idem_decisions_total{operation=operation,scope_class=free,decision=new}",
            1.0,
        ),
        (
            "idem_decisions_total{operation=operation,scope_class=paying,decision=conflict}",
            1.0,
        ),
        (
            "idem_decisions_total{operation=operation,scope_class=paying,decision=duplicate}",
            2.0,
        ),
        (
            "idem_decisions_total{operation=operation,scope_class=paying,decision=new}",
            1.0,
        ),
        (
            "idem_endings_total{operation=operation,scope_class=free,ending=released}",
            1.0,
        ),
        (
            "idem_endings_total{operation=operation,scope_class=paying,ending=sealed}",
            1.0,
        ),
        (
            "idem_first_seen_to_sealed_seconds{operation=operation,scope_class=paying}",
            1.0,
        ),
        (
            "idem_unstored_total{operation=operation,scope_class=free,reason=status}",
            1.0,
        ),
    ];
    let expected: BTreeMap<_, _> = expected
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    assert_eq!(all, expected);
}

#[test]
fn losses_retries_and_waits_are_counted() {
    let all = flat(recorded(async || {
        let store = Scripted::new();
        store.next("complete", &[Fault::Down, Fault::LostAnswer]);
        store.always("renew", Fault::Down);
        let policy = calm().with_on_busy(BusyPolicy::wait(MINUTES * 9));
        let idem = idem(&store, policy).with_observer(MetricsObserver::new());
        let waiting = idem.clone();
        let work = async |work: Work| {
            let waiter = tokio::spawn(async move {
                let work = |_: Work| counted(Effects::default());
                waiting.run(key(), &1, work).await.unwrap().into_inner()
            });
            tokio::time::sleep(Duration::from_secs(1)).await;
            work.lost().await;
            drop(waiter);
            Ok::<_, io::Error>(1)
        };
        idem.run(key(), &1, work).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }));
    let counted = |name: &str| all.get(name).copied();
    assert_eq!(
        counted("idem_lease_losses_total{operation=operation,scope_class=all,cause=expired}"),
        Some(1.0)
    );
    assert_eq!(
        counted("idem_store_retries_total{operation=operation,call=complete,kind=unavailable}"),
        Some(2.0)
    );
    assert!(
        counted("idem_store_retries_total{operation=operation,call=renew,kind=unavailable}")
            > Some(10.0)
    );
    assert_eq!(counted("idem_waiters{operation=operation}"), Some(0.0));
    assert_eq!(counted("idem_wait_seconds{operation=operation}"), Some(1.0));
}

/// The values of the label `operation` after runs of 300 operations.
async fn operations(observer: MetricsObserver) {
    let idem = Idempotency::new(MemoryStore::new()).with_observer(observer);
    for operation in 0..300 {
        let key = Key::new("s", format!("operation-{operation}"), "i").unwrap();
        let work = |_: Work| counted(Effects::default());
        idem.run(&key, &1, work).await.unwrap();
    }
}

fn decided(snapshot: Snapshot) -> BTreeMap<String, f64> {
    let mut all = flat(snapshot);
    all.retain(|name, _| name.starts_with(names::DECISIONS));
    all
}

#[test]
fn no_more_operations_are_distinguished_than_the_bound() {
    let other = "idem_decisions_total{operation=other,scope_class=all,decision=new}";
    let all = decided(recorded(async || operations(MetricsObserver::new()).await));
    assert_eq!(all.len(), 101);
    assert_eq!(all[other], 200.0);
    let observer = MetricsObserver::new().with_max_operations(3);
    let all = decided(recorded(async || operations(observer).await));
    assert_eq!((all.len(), all[other]), (4, 297.0));
    // Named operations keep their labels whenever they come.
    let observer = MetricsObserver::new().with_operations(["operation-299", "never"]);
    let all = decided(recorded(async || operations(observer).await));
    assert_eq!((all.len(), all[other]), (2, 299.0));
    assert!(all.keys().any(|name| name.contains("operation-299")));
}

#[test]
fn everything_is_described_and_no_cache_metric_is_forgotten() {
    let all = recorded(async || {
        MetricsObserver::describe();
        let counts = CacheCounts {
            hits: 5,
            misses: 4,
            errors: 3,
            skipped: 2,
            promotions: 1,
            ..CacheCounts::default()
        };
        counts.publish();
        counts.publish();
    });
    let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
    let described = all
        .into_vec()
        .into_iter()
        .map(|(found, unit, help, value)| {
            assert!(unit.is_some() && help.is_some(), "{found:?}");
            (found.key().name().to_owned(), unit, value)
        });
    let caches: Vec<_> = described.collect();
    let of = |name: &str| caches.iter().find(|(found, ..)| found == name).unwrap();
    assert_eq!(of(names::CACHE_HITS).2, DebugValue::Counter(5));
    assert_eq!(of(names::CACHE_HITS).1, Some(Unit::Count));
    assert_eq!(of(names::CACHE_REFUSALS).2, DebugValue::Counter(0));
    let published = caches.len();
    assert_eq!(
        published,
        names
            .iter()
            .filter(|name| name.starts_with("idem_cache_"))
            .count()
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METRICS.len());
    for metric in METRICS {
        let suffix = match metric.kind {
            MetricKind::Counter => "_total",
            MetricKind::Histogram => "_seconds",
            MetricKind::Gauge => "",
        };
        assert!(metric.name.ends_with(suffix), "{metric:?}");
    }
}
