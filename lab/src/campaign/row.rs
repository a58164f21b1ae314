//! [`Row`]: what one piece of a campaign showed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Tally;
use crate::cells::{Fault, Outcome, Proof};
use crate::judge::Judgement;

/// What one piece of a campaign showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The seed of its traffic and faults.
    pub seed: u64,
    /// The commit of the program.
    pub commit: String,
    /// The hash of the code that decides what the row shows.
    pub code: String,
    /// Name and version of the product.
    pub product: String,
    /// The settings that matter.
    pub settings: String,
    /// The numbers of its history.
    pub tally: Tally,
    /// The keys that the search gave up.
    pub undecided: u64,
    /// The keys whose answers no order explains.
    pub refused: u64,
    /// The losses that the answers need.
    pub losses: u64,
    /// The faults, by kind.
    pub faults: BTreeMap<String, Counts>,
    /// 0 accepted, 1 refused, 2 not proven.
    pub status: u8,
    /// The verdict in words; why the cell did not run.
    pub verdict: String,
}

impl Row {
    /// Adds what its history shows.
    #[must_use]
    pub(super) fn with(self, proof: &Proof, judgement: &Judgement) -> Self {
        Self {
            undecided: judgement.undecided.len() as u64,
            refused: judgement.refused.len() as u64,
            losses: judgement.losses as u64,
            status: proof.status(),
            verdict: proof.to_string(),
            ..self
        }
    }
}

/// How often a fault was injected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// It took place.
    pub installed: u64,
    /// It did not.
    pub skipped: u64,
    /// Nobody knows.
    pub indeterminate: u64,
}

impl Counts {
    /// Counts the faults by kind.
    #[must_use]
    pub fn of(faults: &[Fault]) -> BTreeMap<String, Self> {
        let mut counts: BTreeMap<String, Self> = BTreeMap::new();
        for fault in faults {
            let one = counts.entry(fault.what.clone()).or_default();
            match fault.outcome {
                Outcome::Installed { .. } => one.installed += 1,
                Outcome::Skipped { .. } => one.skipped += 1,
                Outcome::Indeterminate { .. } => one.indeterminate += 1,
            }
        }
        counts
    }

    /// Adds other counts.
    pub fn add(&mut self, other: Self) {
        self.installed += other.installed;
        self.skipped += other.skipped;
        self.indeterminate += other.indeterminate;
    }
}
