//! The row of a run in the final table.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::Product;

/// The counts of one backend while its cases run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) selected: AtomicU64,
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
}

impl<'a> Row<'a> {
    pub(crate) fn new(backend: &'a str, tally: &Tally) -> Self {
        let [passed, failed, selected] = [&tally.passed, &tally.failed, &tally.selected]
            .map(|count| count.load(Ordering::Relaxed));
        Self {
            backend,
            product: "",
            version: "",
            passed,
            ignored: selected.saturating_sub(passed + failed),
            failed,
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

    /// Writes `<folder>/<backend>.json`.
    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let text = serde_json::to_string(self)?;
        std::fs::write(folder.join(format!("{}.json", self.backend)), text + "\n")
    }
}
