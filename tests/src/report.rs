//! The row of a run in the final table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::Product;

/// The counts of one backend while its cases run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) selected: AtomicU64,
    ended: AtomicU64,
    results: Mutex<Results>,
}

/// The cases of one backend by name.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Results {
    failures: Vec<Failure>,
    /// Those that passed.
    pub(crate) passed_cases: BTreeSet<String>,
    /// Those of them that passed only when they ran alone.
    pub(crate) slow: BTreeSet<String>,
    /// How long each took that ran.
    pub(crate) seconds: BTreeMap<String, f64>,
}

/// A case that failed.
#[derive(Debug, Clone, Serialize)]
struct Failure {
    case: String,
    message: String,
}

impl Tally {
    pub(crate) fn fail(&self, case: &str, message: &str) {
        let failure = Failure {
            case: case.to_owned(),
            message: message.to_owned(),
        };
        self.results().failures.push(failure);
    }

    /// Counts a case that has ended. Returns whether it was the last one.
    pub(crate) fn end_case(&self) -> bool {
        let ended = self.ended.fetch_add(1, Ordering::AcqRel) + 1;
        ended == self.selected.load(Ordering::Relaxed)
    }

    /// Returns whether no case has ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.ended.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One row of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Row<'a> {
    backend: &'a str,
    product: &'a str,
    version: &'a str,
    passed: u64,
    ignored: u64,
    failed: u64,
    missing: Option<String>,
    #[serde(flatten)]
    results: Results,
}

impl<'a> Row<'a> {
    pub(crate) fn new(backend: &'a str, tally: &Tally) -> Self {
        let selected = tally.selected.load(Ordering::Relaxed);
        let results = tally.results().clone();
        let passed = results.passed_cases.len() as u64;
        let failed = results.failures.len() as u64;
        Self {
            backend,
            product: "",
            version: "",
            passed,
            ignored: selected.saturating_sub(passed + failed),
            failed,
            missing: None,
            results,
        }
    }

    pub(crate) fn with_product(mut self, product: Option<&'a Product>) -> Self {
        if let Some(product) = product {
            self.product = &product.product;
            self.version = &product.version;
        }
        self
    }

    pub(crate) fn with_missing(mut self, missing: Option<String>) -> Self {
        self.missing = missing;
        self
    }

    /// Writes `<folder>/<backend>.json`, which nobody sees in part.
    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let text = serde_json::to_string(self)?;
        let unfinished = folder.join(format!("{}.unfinished", self.backend));
        std::fs::write(&unfinished, text + "\n")?;
        std::fs::rename(&unfinished, folder.join(format!("{}.json", self.backend)))
    }
}
