//! [`Row`]: one line of the report.

use serde::{Deserialize, Serialize};

use crate::{Figures, Ratio};

/// On which side of the target a ratio has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Throughput: more is better.
    AtLeast,
    /// Time: less is better.
    AtMost,
}

impl Bound {
    /// Whether the ratio is on the right side.
    #[must_use]
    pub fn is_met(self, ratio: f64, target: f64) -> bool {
        match self {
            Self::AtLeast => ratio >= target,
            Self::AtMost => ratio <= target,
        }
    }
}

/// One comparison: a store against what is beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What is done: `claim_fresh`.
    pub path: String,
    /// On what: `postgres`.
    pub backend: String,
    /// How many callers, each waiting for its answer before it asks again.
    pub callers: usize,
    /// Median over the repetitions.
    pub ratio: f64,
    /// What it is the ratio to: `bare held`.
    pub baseline: String,
    /// What the ratio has to be, if anything is asked of it.
    pub target: Option<f64>,
    /// On which side of the target.
    pub bound: Option<Bound>,
    /// Whether it is.
    pub met: Option<bool>,
    /// Why it is not; empty where it is.
    pub reason: String,
    /// The least and the greatest ratio of a repetition.
    pub spread: [f64; 2],
    /// What the store comes to.
    pub idem: Option<Figures>,
    /// What the baseline comes to.
    pub bare: Option<Figures>,
}

impl Row {
    /// A row that nothing is asked of.
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
            target: None,
            bound: None,
            met: None,
            reason: String::new(),
            spread: ratio.spread,
            idem: None,
            bare: None,
        }
    }

    /// The same with what both come to.
    #[must_use]
    pub fn with_figures(mut self, idem: Option<Figures>, bare: Option<Figures>) -> Self {
        self.idem = idem;
        self.bare = bare;
        self
    }
}

/// `postgres claim_fresh 64: 0.93 (0.91-0.95) of bare held, target at least 0.90: met`.
impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, backend, .. } = self;
        write!(f, "{backend} {path} {}: ", self.callers)?;
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
        if let (Some(target), Some(bound), Some(met)) = (self.target, self.bound, self.met) {
            let bound = match bound {
                Bound::AtLeast => "at least",
                Bound::AtMost => "at most",
            };
            let verdict = if met { "met" } else { "MISSED" };
            write!(f, ", target {bound} {target}: {verdict}")?;
        }
        Ok(())
    }
}

/// What the program `ratios` writes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The comparisons, in the order in which they were made.
    pub rows: Vec<Row>,
}
