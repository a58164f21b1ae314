//! The file and its lock.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::time::SystemTime;

use idem_core::{FencingToken, Result, Timestamp};
use serde::{Deserialize, Serialize};

use crate::row::Row;

/// Everything in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) rows: BTreeMap<String, Row>,
    /// The greatest token ever given; it outlives the rows.
    last_token: i64,
    /// The latest instant seen, so that the clock never goes back.
    last_now: Timestamp,
}

impl Table {
    fn now(&mut self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = Timestamp::default().saturating_add(since_epoch.unwrap_or_default());
        self.last_now = self.last_now.max(now);
        self.last_now
    }

    pub(crate) fn next_token(&mut self, now: Timestamp) -> Result<FencingToken> {
        let token = FencingToken::from_i64(self.last_token).next_at(now)?;
        self.last_token = token.as_i64();
        Ok(token)
    }
}

/// Runs `change` on the table under the file's lock, and writes the table back if `change` says so.
/// The lock is the operating system's: it ends with the process that held it.
pub(crate) fn with_table<T>(
    path: &Path,
    change: impl FnOnce(&mut Table, Timestamp) -> Result<(T, bool)>,
) -> Result<Result<T>, Error> {
    let lock = File::create(path.with_extension("lock"))?;
    lock.lock()?;
    let mut table: Table = match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => Table::default(),
        Err(error) => return Err(error),
    };
    let now = table.now();
    let changed = change(&mut table, now);
    if matches!(changed, Ok((_, true))) {
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec(&table)?)?;
        fs::rename(new, path)?;
    }
    Ok(changed.map(|(result, _)| result))
}
