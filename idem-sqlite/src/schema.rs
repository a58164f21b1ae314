//! The tables and their indexes, their migration and their verification.

use std::time::Duration;

use idem_core::{Error, ErrorKind, Result, async_trait};
use idem_sql::cells::Columns;
use idem_sql::executor::BoundStatement;
use idem_sql::parameters;
use idem_sql::schema::{self, CatalogueRow, NeededColumn, Schema, Table, differs};
use serde_json::Value;
use sqlx::AssertSqlSafe;
use tokio::time::{Instant, sleep};

use crate::config::Config;
use crate::error::{Access, classify};
use crate::store::{BACKEND, SqliteStore};
use crate::transaction::WriteTransaction;

/// The version of the schema that this crate works with, of each of its tables.
pub const SCHEMA_VERSION: u32 = 1;

const TEMPLATES: [&str; 2] = [include_str!("schema.sql"), include_str!("schema_marks.sql")];

/// The pause between two tries for the write lock.
const PAUSE: Duration = Duration::from_millis(10);

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
    tables(config).map(|table| table.ddl).concat()
}

fn tables(config: &Config) -> [Table; 2] {
    let quoted = [config.quoted_table(), config.quoted_marks()];
    Table::both(config.table(), quoted, TEMPLATES)
}

impl SqliteStore {
    /// Creates the tables and their indexes where they are missing; existing ones are left alone.
    /// Safe when many processes start at once; when there is nothing to do it only reads.
    ///
    /// *Atomicity*: all in one transaction, one process at a time.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the file cannot be written or a table is not as the statements need it;
    /// `Contention` when the write lock was not free in time.
    ///
    /// # Cancellation
    ///
    /// All of it happens, or nothing.
    pub async fn migrate(&self) -> Result<()> {
        let migrated = schema::migrate(&SqliteSchema(self)).await;
        migrated.map_err(|error| error.at(BACKEND, "migrate"))
    }

    /// Checks the tables, and the settings of one connection of [`pool`](Self::pool). Of the tables
    /// it checks columns, their types, which may be NULL, collations, primary keys and indexes, and
    /// that they have no foreign trigger or constraint. Only reads.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the remedy.
    pub async fn verify(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "verify");
        // First, because with some of them nothing can be read.
        self.check_settings().await.map_err(at)?;
        schema::verify(&SqliteSchema(self)).await.map_err(at)
    }
}

struct SqliteSchema<'s>(&'s SqliteStore);

#[async_trait]
impl Schema for SqliteSchema<'_> {
    const VERSION: u32 = SCHEMA_VERSION;

    // Bytes are compared as they are: another collation would take different keys for one.
    const COLUMNS: &'static str = "SELECT json_group_array(json_array(
            name, lower(type), 0, NOT \"notnull\", dflt_value IS NOT NULL, name IN (
                SELECT c.name FROM pragma_index_list(?1) AS i, pragma_index_xinfo(i.name) AS c
                WHERE i.origin = 'pk' AND c.key AND c.coll <> 'BINARY' COLLATE NOCASE)))
        FROM pragma_table_info(?1)";

    const INDEX_COLUMNS: &'static str = "SELECT json_group_array(json_array(
            i.name, c.seqno = 0, i.origin = 'pk', c.name))
        FROM pragma_index_list(?1) AS i, pragma_index_xinfo(i.name) AS c WHERE c.key";

    fn tables(&self) -> [Table; 2] {
        tables(&self.0.operations.config)
    }

    /// The rows come as one JSON text.
    async fn rows(&self, query: &'static str, table: &Table) -> Result<Vec<CatalogueRow>> {
        let statement = BoundStatement {
            text: query.into(),
            values: vec![parameters::Value::Text(&table.name)],
            is_persistent: true,
        };
        let row = self.0.session().read(statement).await?;
        let row = row.ok_or_else(|| Error::corrupt("an aggregate has no row"))?;
        let rows: Vec<Vec<Value>> = serde_json::from_str(Columns::of(&row).text(0)?)
            .map_err(|error| differs(table, "it cannot be read").with_source(error))?;
        let text = |value: Value| match value {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let row = |row: Vec<Value>| CatalogueRow(row.into_iter().map(text).collect());
        Ok(rows.into_iter().map(row).collect())
    }

    /// SQLite keeps no comment that could mark a table, so each table of that name counts.
    async fn version(&self, table: &Table) -> Result<Option<u32>> {
        let query = "SELECT json_group_array(json_array(name)) FROM sqlite_schema
            WHERE name = ?1 COLLATE NOCASE";
        let rows = self.rows(query, table).await?;
        Ok(rows.first().map(|_| SCHEMA_VERSION))
    }

    fn alter(_: &str, _: &NeededColumn<'_>) -> String {
        "SQLite cannot alter it, so copy the rows to a table as `schema_sql` prints it".to_owned()
    }

    /// Checks that no foreign trigger or unique index judges the store's rows.
    async fn check_access(&self, table: &Table) -> Result<()> {
        let query = "SELECT json_group_array(json_array(part)) FROM (
                SELECT 'trigger' AS part FROM sqlite_schema
                WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE
            UNION ALL
                SELECT 'unique index beside its primary key' FROM pragma_index_list(?1)
                WHERE \"unique\" AND origin <> 'pk')";
        let rows = self.rows(query, table).await?;
        let Some(part) = rows.first().map(|row| row.text(0)) else {
            return Ok(());
        };
        let writes = "which may refuse or change what the store writes";
        Err(differs(
            table,
            &format!("it has a {part}, {writes}; drop that {part}"),
        ))
    }

    async fn create(&self, missing: &[Table]) -> Result<()> {
        let config = &self.0.operations.config;
        // Other processes may create the tables at this moment, which justifies a longer wait than
        // a claim does.
        let deadline = Instant::now() + config.timeout();
        let mut open = loop {
            match WriteTransaction::begin(&self.0.pools, config).await {
                Err(error)
                    if error.kind() == ErrorKind::Contention && Instant::now() < deadline =>
                {
                    sleep(PAUSE).await;
                }
                begun => break begun?,
            }
        };
        let ddl: String = missing.iter().map(|table| &*table.ddl).collect();
        let created = sqlx::raw_sql(AssertSqlSafe(ddl)).execute(open.connection()?);
        created
            .await
            .map_err(|error| classify(error, Access::Write))?;
        open.commit().await
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
                .all(|outcome| outcome.as_ref().unwrap().name() == "acquired")
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
