//! The tables, their migration and their verification.

use idem_core::backend::RetryPauses;
use idem_core::{ErrorKind, Result, async_trait};
use idem_sql::schema::{self, CatalogueRow, NeededColumn, Schema, Table, differs};
use tokio::time::Instant;

use crate::config::Config;
use crate::error::Access;
use crate::executor::BoundStatement;
use crate::store::{BACKEND, DuckDbStore};

/// The version of the schema that this crate works with, of each of its tables.
pub const SCHEMA_VERSION: u32 = 1;

const TEMPLATES: [&str; 2] = [include_str!("schema.sql"), include_str!("schema_marks.sql")];

/// Returns the DDL as text, for applications that run their own migrations;
/// [`DuckDbStore::migrate`] runs the same.
///
/// The text may run any number of times.
///
/// There is no index beside the primary key. DuckDB keeps the smallest and the largest value of
/// each block of rows, so a maintenance task skips most of them; and each index makes writes slower.
#[must_use]
pub fn schema_sql(config: &Config) -> String {
    tables(config).map(|table| table.ddl).concat()
}

fn tables(config: &Config) -> [Table; 2] {
    let quoted = [config.quoted_table(), config.quoted_marks()];
    Table::both(config.table(), quoted, TEMPLATES)
}

impl DuckDbStore {
    /// Creates the tables where they are missing; existing ones are left alone. Safe when several
    /// tasks start at once; when there is nothing to do it only reads.
    ///
    /// *Atomicity*: all in one transaction.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the file cannot be written or a table is not as the statements need it;
    /// `Contention` when other migrations got in the way for too long.
    ///
    /// # Cancellation
    ///
    /// All of it happens, or nothing.
    pub async fn migrate(&self) -> Result<()> {
        let migrated = schema::migrate(&DuckDbSchema(self)).await;
        migrated.map_err(|error| error.at(BACKEND, "migrate"))
    }

    /// Checks the tables: columns, their types, which may be NULL, primary keys, and that they have
    /// no foreign constraint. Only reads.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the remedy.
    pub async fn verify(&self) -> Result<()> {
        let verified = schema::verify(&DuckDbSchema(self)).await;
        verified.map_err(|error| error.at(BACKEND, "verify"))
    }
}

struct DuckDbSchema<'s>(&'s DuckDbStore);

/// The condition that a row of a catalogue is about the table, in the store's schema.
macro_rules! of_table {
    () => {
        " database_name = current_database() AND schema_name = 'main'
            AND lower(table_name) = lower($1)"
    };
}

#[async_trait]
impl Schema for DuckDbSchema<'_> {
    const VERSION: u32 = SCHEMA_VERSION;

    // No collation matters: the primary key is of bytes.
    const COLUMNS: &'static str = concat!(
        "SELECT lower(column_name), lower(data_type), '0',
            CASE WHEN is_nullable THEN '1' END,
            CASE WHEN column_default IS NOT NULL THEN '1' END, NULL
        FROM duckdb_columns() WHERE",
        of_table!()
    );

    const INDEX_COLUMNS: &'static str = concat!(
        "SELECT constraint_name, CASE WHEN position = 1 THEN '1' END, '1',
            lower(constraint_column_names[position])
        FROM (SELECT *, unnest(range(1, len(constraint_column_names) + 1)) AS position
            FROM duckdb_constraints()
            WHERE constraint_type = 'PRIMARY KEY' AND",
        of_table!(),
        ")"
    );

    fn tables(&self) -> [Table; 2] {
        tables(&self.0.operations.config)
    }

    async fn rows(&self, query: &'static str, table: &Table) -> Result<Vec<CatalogueRow>> {
        let statement = BoundStatement {
            text: query.into(),
            values: vec![duckdb::types::Value::Text(table.name.clone())],
            clock: None,
        };
        let rows = self.0.session().read_all(statement).await?;
        let row = |row: &idem_sql::cells::Row| {
            let text = |index| Ok(row.text(index)?.unwrap_or_default().to_owned());
            CatalogueRow::read(row.width(), text)
        };
        rows.iter().map(row).collect()
    }

    /// An existing table of that name counts, too.
    async fn version(&self, table: &Table) -> Result<Option<u32>> {
        let query = concat!("SELECT table_name FROM duckdb_tables() WHERE", of_table!());
        let rows = self.rows(query, table).await?;
        Ok(rows.first().map(|_| SCHEMA_VERSION))
    }

    fn alter(_: &str, _: &NeededColumn<'_>) -> String {
        "copy the rows to a table as `schema_sql` prints it".to_owned()
    }

    /// Checks that no foreign constraint or unique index judges the store's rows.
    async fn check_access(&self, table: &Table) -> Result<()> {
        let query = concat!(
            "SELECT lower(constraint_type) || ' constraint' FROM duckdb_constraints()
            WHERE constraint_type NOT IN ('PRIMARY KEY', 'NOT NULL') AND",
            of_table!(),
            " UNION ALL SELECT 'unique index' FROM duckdb_indexes() WHERE is_unique AND",
            of_table!()
        );
        let rows = self.rows(query, table).await?;
        let Some(part) = rows.first().map(|row| row.text(0)) else {
            return Ok(());
        };
        let difference =
            format!("it has a {part}, which may refuse what the store writes; drop that {part}");
        Err(differs(table, &difference))
    }

    /// Two transactions that create a table conflict.
    async fn create(&self, missing: &[Table]) -> Result<()> {
        let config = self.0.config();
        let ddl: String = missing.iter().map(|table| &*table.ddl).collect();
        let script = format!("BEGIN TRANSACTION; {ddl} COMMIT;");
        let until = (Instant::now() + config.timeout(), config.timeout());
        let mut pauses = RetryPauses::new(config.timeout());
        loop {
            let script = script.clone();
            let work = move |connection: &duckdb::Connection| connection.execute_batch(&script);
            match self.0.pool.run_until(until, Access::Write, work).await {
                Err(error) if error.kind() == ErrorKind::Contention && pauses.wait().await => {}
                created => return created,
            }
        }
    }
}
