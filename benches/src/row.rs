//! [`Row`]: one line of the report.

use serde::{Deserialize, Serialize};

use crate::{Figures, Ratio};

/// One comparison: a store against its baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The operation, such as `claim_fresh`.
    pub path: String,
    /// The backend, such as `postgres`.
    pub backend: String,
    /// Number of callers, each of which waits for its answer before the next call.
    pub callers: usize,
    /// Median over the repetitions; a count if there is a unit.
    pub ratio: f64,
    /// The other side of the ratio: `bare held`.
    pub baseline: String,
    /// The lowest and the highest ratio of a repetition.
    pub spread: [f64; 2],
    /// The unit of a count: `bytes`; empty for a ratio.
    pub unit: String,
    /// The store's figures.
    pub idem: Option<Figures>,
    /// The baseline's figures.
    pub bare: Option<Figures>,
}

impl Row {
    /// Creates a row without absolute figures.
    pub fn new(
        (path, backend, callers): (&str, &str, usize),
        baseline: impl Into<String>,
        ratio: Ratio,
    ) -> Self {
        Self {
            path: path.to_owned(),
            backend: backend.to_owned(),
            callers,
            ratio: ratio.median,
            baseline: baseline.into(),
            spread: ratio.spread,
            unit: String::new(),
            idem: None,
            bare: None,
        }
    }

    /// Creates a count of the memory store.
    #[must_use]
    pub fn count(path: &str, count: f64, unit: &str, baseline: &str) -> Self {
        let ratio = Ratio {
            median: count,
            spread: [count; 2],
        };
        Self {
            unit: unit.to_owned(),
            ..Self::new((path, "memory", 1), baseline, ratio)
        }
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
        let [low, high] = self.spread;
        write!(
            f,
            "{:.2} ({low:.2}-{high:.2}) of {}",
            self.ratio, self.baseline
        )?;
        if let (Some(idem), Some(bare)) = (self.idem, self.bare) {
            write!(f, ", {:.0}/s to {:.0}/s", idem.per_second, bare.per_second)?;
            if let (Some(idem), Some(bare)) = (idem.p99_us, bare.p99_us) {
                write!(f, ", p99 {idem:.0} to {bare:.0} us")?;
            }
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
