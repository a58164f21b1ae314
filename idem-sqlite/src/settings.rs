//! The settings of a connection that the store refuses.

use idem_core::Result;
use idem_sql::cells::Columns;
use idem_sql::executor::BoundStatement;
use idem_sql::schema::misconfigured;

use crate::store::SqliteStore;

/// A setting of a connection, the values with which the store does not keep its promises, and the
/// remedy.
const REFUSED: &[(&str, &[&str], &str)] = &[
    // First, because it keeps the others from being read.
    (
        "locking_mode",
        &["exclusive"],
        "other connections, the store's own too, would be locked out; set it to NORMAL",
    ),
    (
        "synchronous",
        &["0"],
        "a power failure would take acknowledged completions with it; set it to FULL",
    ),
    (
        "journal_mode",
        &["off", "memory"],
        "a crash in a write would damage the file; set it to WAL",
    ),
    (
        "query_only",
        &["1"],
        "nothing can be written on this connection; set it to OFF",
    ),
    (
        "read_uncommitted",
        &["1"],
        "changes that may be rolled back would be returned as results; set it to OFF",
    ),
    (
        "writable_schema",
        &["1"],
        "a slip would damage the file; set it to OFF",
    ),
];

impl SqliteStore {
    /// Checks the settings of one connection of [`pool`](Self::pool).
    pub(crate) async fn check_settings(&self) -> Result<()> {
        let config = &self.operations.config;
        for &(name, refused, why) in REFUSED {
            let statement = BoundStatement {
                text: format!("PRAGMA {name}").into(),
                values: Vec::new(),
                is_persistent: true,
            };
            let Some(row) = self.pools.read_shared(&statement, config).await? else {
                continue;
            };
            let value = Columns::of(&row).text(0)?;
            let is_memory = name == "journal_mode" && !self.pools.file.is_watched();
            if refused.contains(&&*value.to_lowercase()) && !is_memory {
                return Err(misconfigured(format!(
                    "the pool's connections have `PRAGMA {name} = {value}`: {why}"
                )));
            }
        }
        Ok(())
    }
}
