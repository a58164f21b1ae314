//! [`Ledger`]: what all campaigns together showed, by cell and code.

use std::collections::BTreeMap;
use std::path::Path;

use idem_core::BoxError;
use serde::{Deserialize, Serialize};

use super::{Counts, Row, Tally};

/// What all campaigns together showed. Rows of the same cell and code are added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The entries.
    pub entries: Vec<Entry>,
}

/// What a cell showed of one code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The cell.
    pub cell: String,
    /// The hash of the code.
    pub code: String,
    /// The commits at which it ran.
    pub commits: Vec<String>,
    /// Name and version of the product.
    pub product: String,
    /// The settings that matter.
    pub settings: String,
    /// The seeds of its pieces, each of which counts once.
    pub seeds: Vec<u64>,
    /// The seeds and verdicts of the pieces that were not accepted.
    pub not_accepted: Vec<(u64, String)>,
    /// The numbers of all histories.
    pub tally: Tally,
    /// The keys that the search gave up.
    pub undecided: u64,
    /// The keys whose answers no order explains.
    pub refused: u64,
    /// The losses that the answers need.
    pub losses: u64,
    /// The faults, by kind.
    pub faults: BTreeMap<String, Counts>,
}

impl Ledger {
    /// Reads a ledger; an empty one where there is no file.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read(file: &Path) -> Result<Self, BoxError> {
        match std::fs::read(file) {
            Ok(text) => {
                let entries = serde_json::Deserializer::from_slice(&text).into_iter();
                let entries = entries.collect::<Result<_, _>>();
                let entries = entries.map_err(|error| format!("{}: {error}", file.display()))?;
                Ok(Self { entries })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", file.display()).into()),
        }
    }

    /// Writes it in place of the file, with a line for each entry.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), BoxError> {
        let mut text = String::new();
        for entry in &self.entries {
            text += &serde_json::to_string(entry)?;
            text.push('\n');
        }
        write_whole(file, text.as_bytes())
    }

    /// Adds what a piece showed, if it does not have it.
    ///
    /// # Errors
    ///
    /// The piece is of code that is not committed, so that nobody could run it again.
    pub fn add(&mut self, row: &Row) -> Result<(), BoxError> {
        if row.commit.ends_with('+') {
            return Err("commit first: the ledger only holds rows of committed code".into());
        }
        let is_same = |entry: &Entry| {
            entry.cell == row.cell
                && entry.code == row.code
                && entry.product == row.product
                && entry.settings == row.settings
        };
        let at = self.entries.iter().position(is_same);
        let at = at.unwrap_or_else(|| {
            self.entries.push(Entry::of(row));
            self.entries.len() - 1
        });
        let entry = &mut self.entries[at];
        if !entry.seeds.contains(&row.seed) {
            entry.add(row);
        }
        let order = |entry: &Entry| (entry.cell.clone(), entry.code.clone());
        self.entries.sort_by_key(order);
        Ok(())
    }
}

impl Entry {
    fn of(row: &Row) -> Self {
        Self {
            cell: row.cell.clone(),
            code: row.code.clone(),
            commits: Vec::new(),
            product: row.product.clone(),
            settings: row.settings.clone(),
            seeds: Vec::new(),
            not_accepted: Vec::new(),
            tally: Tally::default(),
            undecided: 0,
            refused: 0,
            losses: 0,
            faults: BTreeMap::new(),
        }
    }

    fn add(&mut self, row: &Row) {
        if !self.commits.contains(&row.commit) {
            self.commits.push(row.commit.clone());
        }
        self.seeds.push(row.seed);
        self.tally.add(row.tally);
        self.judge(row);
        for (kind, counts) in &row.faults {
            self.faults.entry(kind.clone()).or_default().add(*counts);
        }
    }

    /// Adds what the search found.
    fn judge(&mut self, row: &Row) {
        if row.status != 0 {
            self.not_accepted.push((row.seed, row.verdict.clone()));
        }
        self.undecided += row.undecided;
        self.refused += row.refused;
        self.losses += row.losses;
    }
}

/// Writes a file as a whole or not at all.
pub(super) fn write_whole(file: &Path, text: &[u8]) -> Result<(), BoxError> {
    let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(wrong)?;
    }
    let beside = file.with_extension("new");
    std::fs::write(&beside, text).map_err(wrong)?;
    std::fs::rename(&beside, file).map_err(wrong)?;
    Ok(())
}
