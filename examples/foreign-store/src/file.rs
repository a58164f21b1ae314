//! The file and its lock.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::row::Row;

/// Everything in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) rows: BTreeMap<String, Row>,
    /// The greatest token ever given; it outlives the rows.
    last_token: i64,
    /// The latest instant seen, so that the clock never goes back.
    last_now: i64,
}

impl Table {
    /// Returns the clock's time, in microseconds.
    pub(crate) fn now(&mut self) -> i64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = i64::try_from(since_epoch.unwrap_or_default().as_micros()).unwrap_or(i64::MAX);
        self.last_now = self.last_now.max(now);
        self.last_now
    }

    pub(crate) fn next_token(&mut self, now: i64) -> i64 {
        self.last_token = now.max(self.last_token.saturating_add(1));
        self.last_token
    }
}

fn read(path: &Path) -> std::io::Result<Table> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Table::default()),
        Err(error) => Err(error),
    }
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    path.with_extension(extension)
}

/// Runs `change` on the table under the file's lock, and writes the table back if `change` says so.
/// The lock is the operating system's: it ends with the process that held it.
pub(crate) fn with_table<T>(
    path: &Path,
    change: impl FnOnce(&mut Table) -> (T, bool),
) -> std::io::Result<T> {
    let lock = File::create(beside(path, "lock"))?;
    lock.lock()?;
    let mut table = read(path)?;
    let (result, changed) = change(&mut table);
    if changed {
        let new = beside(path, "new");
        fs::write(&new, serde_json::to_vec(&table)?)?;
        fs::rename(new, path)?;
    }
    Ok(result)
}
