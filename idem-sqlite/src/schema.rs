//! The tables and their indexes, and the migration that creates them.

use std::time::Duration;

use idem_core::{Error, ErrorKind, Result};
use sqlx::AssertSqlSafe;
use tokio::time::{Instant, sleep};

use crate::config::Config;
use crate::error::{Access, classify};
use crate::store::{BACKEND, SqliteStore};
use crate::transaction::WriteTransaction;

/// The version of the schema that this crate works with, of each of its tables.
pub const SCHEMA_VERSION: u32 = 1;

/// The required shape of a table.
#[derive(Debug)]
pub(crate) struct Needed {
    /// Name, type, and whether it may be NULL.
    pub(crate) columns: &'static [(&'static str, &'static str, Null)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Null {
    Never,
    Allowed,
}

/// The same for both tables, in any order: earlier versions had another order.
pub(crate) const KEY: [&str; 3] = ["id", "operation", "scope"];

pub(crate) const RECORDS: &Needed = &Needed {
    columns: &[
        ("scope", "TEXT", Null::Never),
        ("operation", "TEXT", Null::Never),
        ("id", "TEXT", Null::Never),
        ("token", "INTEGER", Null::Never),
        ("state", "INTEGER", Null::Never),
        ("attempts", "INTEGER", Null::Never),
        ("created_at", "INTEGER", Null::Never),
        ("lease_ends_at", "INTEGER", Null::Never),
        ("expires_at", "INTEGER", Null::Never),
        ("purge_at", "INTEGER", Null::Never),
        ("sealed_at", "INTEGER", Null::Allowed),
        ("sweep_at", "INTEGER", Null::Allowed),
        ("fingerprint", "BLOB", Null::Never),
        ("attempt_id", "BLOB", Null::Never),
        ("metadata", "TEXT", Null::Allowed),
        ("result", "BLOB", Null::Allowed),
    ],
};

pub(crate) const MARKS: &Needed = &Needed {
    columns: &[
        ("scope", "TEXT", Null::Never),
        ("operation", "TEXT", Null::Never),
        ("id", "TEXT", Null::Never),
        ("version", "INTEGER", Null::Never),
        ("expires_at", "INTEGER", Null::Never),
    ],
};

/// The pause between two tries for the write lock.
const PAUSE: Duration = Duration::from_millis(10);

const TEMPLATE: &str = include_str!("schema.sql");

/// Returns the DDL as text, for applications that run their own migrations;
/// [`SqliteStore::migrate`] runs the same.
///
/// The text may run any number of times.
///
/// The primary key is `(id, operation, scope)`, because ids differ most, so most comparisons on the
/// way down the index end with them. A table of an earlier version with another order works as
/// before.
#[must_use]
pub fn schema_sql(config: &Config) -> String {
    let table = config.table();
    TEMPLATE
        .replace("{table}", &config.quoted_table())
        .replace("{purge_index}", &format!("\"{table}_purge_at\""))
        .replace("{sweep_index}", &format!("\"{table}_sweep_at\""))
        .replace("{marks}", &config.quoted_marks())
        .replace("{marks_index}", &format!("\"{table}_marks_at\""))
}

impl SqliteStore {
    /// Creates the tables and their indexes where they are missing; existing ones are left alone.
    /// Safe when many processes start at once; when there is nothing to do it only reads.
    ///
    /// *Atomicity*: all in one transaction, one process at a time.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the file cannot be written or a table is of a later version;
    /// `Contention` when the write lock was not free in time.
    ///
    /// # Cancellation
    ///
    /// All of it happens, or nothing.
    pub async fn migrate(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "migrate");
        if self.is_complete().await.map_err(at)? {
            return Ok(());
        }
        let config = &self.operations.config;
        // Other processes may create the tables at this moment, which justifies a longer wait than
        // a claim does.
        let deadline = Instant::now() + config.timeout();
        let mut open = loop {
            match WriteTransaction::begin(&self.pools, config).await {
                Err(error)
                    if error.kind() == ErrorKind::Contention && Instant::now() < deadline =>
                {
                    sleep(PAUSE).await;
                }
                begun => break begun.map_err(at)?,
            }
        };
        sqlx::raw_sql(AssertSqlSafe(schema_sql(config)))
            .execute(open.connection().map_err(at)?)
            .await
            .map_err(|error| at(classify(error, Access::Write)))?;
        open.commit().await.map_err(at)
    }

    /// Returns whether both tables exist; an error when one exists, but is not what the statements
    /// need.
    async fn is_complete(&self) -> Result<bool> {
        let config = &self.operations.config;
        let records = self.has(config.table().to_owned(), RECORDS).await?;
        let marks = self.has(config.marks(), MARKS).await?;
        Ok(records && marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_schema_names_the_configured_table() {
        let sql = schema_sql(&Config::new().with_table("dedup").unwrap());
        assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"dedup\" ("));
        assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"dedup_watermarks\" ("));
        assert!(sql.contains("\"dedup_purge_at\" ON \"dedup\""));
        assert!(!sql.contains('{'));
    }

    #[tokio::test]
    async fn a_table_whose_key_has_another_order_works() {
        use idem_core::{BatchStore, ClaimRequest, Fingerprint, IdempotencyStore, Key};

        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/idem.db", folder.path().display());
        let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
        let (new, old) = ("(id, operation, scope)", "(scope, operation, id)");
        let schema = schema_sql(&Config::new());
        assert!(schema.contains(new));
        let script = AssertSqlSafe(schema.replace(new, old));
        sqlx::raw_sql(script).execute(store.pool()).await.unwrap();
        store.migrate().await.unwrap();
        let key = |id: &str| Key::new("tenant", "pay", id).unwrap();
        let request = |id: &str| ClaimRequest::new(key(id), Fingerprint::raw("request"));
        let names = ["one", "two"].map(request);
        let fresh = store.claim_many(&names).await;
        assert!(
            fresh
                .iter()
                .all(|told| told.as_ref().unwrap().name() == "acquired")
        );
        assert_eq!(
            store.claim(&request("one")).await.unwrap().name(),
            "in_flight"
        );
        assert_eq!(
            store.claim(&request("three")).await.unwrap().name(),
            "acquired"
        );
    }
}
