//! The backends, and the rows that the measuring programs write and `cargo xtask bench` judges.
//!
//! They are a crate of their own, so that `xtask` is built without the stores and their drivers.

use serde::{Deserialize, Serialize};

/// A backend: its name, the feature of `idem-benches` that its paths need, and its servers.
pub type Backend = (&'static str, &'static str, &'static [&'static str]);

/// The backends, in the order of reports.
pub const BACKENDS: [Backend; 9] = [
    ("memory", "http", &[]),
    ("sqlite", "sqlite", &[]),
    ("postgres", "postgres", &["postgres"]),
    ("mariadb", "mysql", &["mariadb"]),
    ("mysql", "mysql", &["mysql"]),
    ("redis", "redis", &["redis"]),
    ("valkey", "redis", &["valkey"]),
    ("mongo", "mongo", &["mongo"]),
    ("hybrid", "hybrid", &["postgres", "redis"]),
];

/// Throughput and latency of one contender.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Median of the rounds' operations per second.
    pub per_second: f64,
    /// Median of all latencies, in microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of all latencies, in microseconds.
    pub p99_us: Option<f64>,
}

/// One comparison: a store against its baseline; a count if it has a unit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The operation, such as `claim_fresh`.
    pub path: String,
    /// The backend, such as `postgres`.
    pub backend: String,
    /// Number of callers, each of which waits for its answer before the next call.
    pub callers: usize,
    /// Median over the repetitions, or the count.
    pub ratio: f64,
    /// The other side of the ratio: `bare held`.
    #[serde(default)]
    pub baseline: String,
    /// The lowest and the highest ratio of a repetition.
    pub spread: Option<[f64; 2]>,
    /// The unit of a count: `bytes`; empty for a ratio.
    #[serde(default)]
    pub unit: String,
    /// The store's figures.
    pub idem: Option<Figures>,
    /// The baseline's figures.
    pub bare: Option<Figures>,
}

impl Row {
    /// Creates a count of the memory store.
    #[must_use]
    pub fn count(path: &str, count: f64, unit: &str, baseline: &str) -> Self {
        Self {
            path: path.to_owned(),
            backend: "memory".to_owned(),
            callers: 1,
            ratio: count,
            baseline: baseline.to_owned(),
            spread: Some([count; 2]),
            unit: unit.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the lowest and the highest ratio of a repetition; `None` if all are equal.
    #[must_use]
    pub fn spread(&self) -> Option<[f64; 2]> {
        self.spread.filter(|[low, high]| low < high)
    }

    /// Returns the operations per second, the store's and the baseline's.
    #[must_use]
    pub fn per_second(&self) -> [Option<f64>; 2] {
        [self.idem, self.bare].map(|figures| Some(figures?.per_second))
    }

    /// Returns the 99th percentile of latency in microseconds, the store's and the baseline's.
    #[must_use]
    pub fn p99_us(&self) -> [Option<f64>; 2] {
        [self.idem, self.bare].map(|figures| figures?.p99_us)
    }
}

/// Formats `postgres claim_fresh 64: 0.93 (0.91-0.95) of bare held, 9300/s to 10000/s, p99 900 to
/// 800 us`.
impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, backend, .. } = self;
        write!(f, "{backend} {path} {}: ", self.callers)?;
        if !self.unit.is_empty() {
            return write!(f, "{:.3} {} for {}", self.ratio, self.unit, self.baseline);
        }
        write!(f, "{:.2} ", self.ratio)?;
        if let Some([low, high]) = self.spread {
            write!(f, "({low:.2}-{high:.2}) ")?;
        }
        write!(f, "of {}", self.baseline)?;
        if let [Some(idem), Some(bare)] = self.per_second() {
            write!(f, ", {idem:.0}/s to {bare:.0}/s")?;
        }
        if let [Some(idem), Some(bare)] = self.p99_us() {
            write!(f, ", p99 {idem:.0} to {bare:.0} us")?;
        }
        Ok(())
    }
}

/// The file that the programs write.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The comparisons, in the order of measurement.
    pub rows: Vec<Row>,
}
