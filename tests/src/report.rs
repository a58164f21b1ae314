//! The row of a run in the final table.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::Product;

/// The counts of one backend while its cases run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: AtomicU64,
    pub(crate) selected: AtomicU64,
    ended: AtomicU64,
    failures: Mutex<Vec<Failure>>,
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
        let failures = self.failures.lock();
        failures
            .unwrap_or_else(PoisonError::into_inner)
            .push(failure);
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

    fn failures(&self) -> Vec<Failure> {
        let failures = self.failures.lock();
        failures.unwrap_or_else(PoisonError::into_inner).clone()
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
    failures: Vec<Failure>,
    missing: Option<String>,
}

impl<'a> Row<'a> {
    pub(crate) fn new(backend: &'a str, tally: &Tally) -> Self {
        let [passed, selected] =
            [&tally.passed, &tally.selected].map(|count| count.load(Ordering::Relaxed));
        let failures = tally.failures();
        let failed = failures.len() as u64;
        Self {
            backend,
            product: "",
            version: "",
            passed,
            ignored: selected.saturating_sub(passed + failed),
            failed,
            failures,
            missing: None,
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
