//! The tables and their indexes, their migration and their verification.

use idem_core::{Error, Result, async_trait};
use idem_sql::schema::{
    self, CatalogueRow, NeededColumn, Schema, Table, create_once_more, differs, fnv_1a,
    lacks_privileges, misconfigured,
};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row};

use crate::config::{Config, StatementMode};
use crate::defaults::{SessionState, check_reads};
use crate::error::{Access, classify, decode};
use crate::store::{BACKEND, PostgresStore};

/// The version of the schema that this crate works with, of each of its tables.
pub const SCHEMA_VERSION: u32 = 1;

const TEMPLATES: [&str; 2] = [include_str!("schema.sql"), include_str!("schema_marks.sql")];

/// Returns the DDL as text, for applications that run their own migrations;
/// [`PostgresStore::migrate`] runs the same.
///
/// The text may run any number of times. The statements belong into one transaction.
///
/// The primary key is `(id, operation, scope)`, because ids differ most. A table of an earlier
/// version with another order works as before. A search by scope alone needs an index of its own.
///
/// `purge_at` stays as the claim set it while it is late by at most an eighth of the retention.
/// Then no indexed column changes, and a completion is a heap-only update. `fillfactor = 85` leaves
/// room for the result. Measured on PostgreSQL 15 with 8 writers and 20,000 keys:
///
/// | heap-only updates with results of | 100 B | 400 B | 1,500 B |
/// | --- | --- | --- | --- |
/// | fillfactor 100 | 99.0 % | 90.9 % | 72.0 % |
/// | fillfactor 85 | 100 % | 100 % | 97.6 % |
/// | fillfactor 70, a quarter more space | 100 % | 100 % | 99.0 % |
///
/// `autovacuum_vacuum_scale_factor = 0.02` cleans before millions of dead rows collect; raise
/// `autovacuum_vacuum_cost_limit` on the server if it does not keep up.
#[must_use]
pub fn schema_sql(config: &Config) -> String {
    schema_ddl(config) + &tables(config).map(|table| table.ddl).concat()
}

fn schema_ddl(config: &Config) -> String {
    let create = |schema| format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\";\n");
    config.schema().map(create).unwrap_or_default()
}

fn tables(config: &Config) -> [Table; 2] {
    let quoted = [config.qualified_table(), config.qualified_marks()];
    Table::both(config.table(), quoted, TEMPLATES)
}

impl PostgresStore {
    /// Creates the schema (if one is configured), the tables and their indexes where they are
    /// missing, and checks server and tables. An existing table is left alone, so an installation
    /// without a table of watermarks gets one while it stays in use. Safe when many processes start
    /// at once; when there is nothing to do it only reads.
    ///
    /// The role needs CREATE on the schema, or on the database for the schema itself. For
    /// everything else SELECT, INSERT, UPDATE and DELETE on the two tables are enough.
    ///
    /// *Atomicity*: all in one transaction, one process at a time (`pg_advisory_xact_lock`).
    ///
    /// # Errors
    ///
    /// - `Misconfigured` when the server is older than PostgreSQL 12, the database's encoding is
    ///   not UTF8, or a privilege is missing; when a table is of a later version, is not this
    ///   crate's, or lacks a part that the statements need.
    /// - `Unavailable` as usual.
    ///
    /// # Cancellation
    ///
    /// All of it happens, or nothing.
    pub async fn migrate(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "migrate");
        self.check_server().await.map_err(at)?;
        schema::migrate(&PostgresSchema(self)).await.map_err(at)
    }

    /// Checks that the server, the session's defaults and the tables suit this crate. The tables
    /// must exist, in this version, with the columns, types, keys and indexes that the statements
    /// need, and the role may read and write them. Only reads.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the remedy; `Unavailable` as usual, and when a standby answers some of the
    /// reads.
    pub async fn verify(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "verify");
        self.check_server().await.map_err(at)?;
        schema::verify(&PostgresSchema(self)).await.map_err(at)
    }

    async fn check_server(&self) -> Result<()> {
        let read = async {
            let connection = self.pool.acquire().await;
            let mut connection = connection.map_err(|error| classify(error, Access::Read))?;
            let state = SessionState::read(&mut connection).await?;
            check_reads(&mut connection).await?;
            Ok(state)
        };
        let timeout = self.config().timeout();
        let session = tokio::time::timeout(timeout, read).await;
        let session = session.unwrap_or_else(|_| Err(Access::Read.timed_out(timeout)))?;
        session.check_server()?;
        // Unprepared statements run in transactions that set their own characteristics.
        session.check_defaults(self.config().statement_mode() == StatementMode::Prepared)
    }

    /// Sends a simple query, which no pooler mixes up with another.
    async fn read(&self, sql: impl Into<String>) -> Result<Vec<PgRow>> {
        let query = sqlx::raw_sql(AssertSqlSafe(sql.into()));
        let rows = tokio::time::timeout(self.config().timeout(), query.fetch_all(&self.pool)).await;
        let rows = rows.map_err(|_| Access::Read.timed_out(self.config().timeout()))?;
        rows.map_err(|error| classify(error, Access::Read))
    }
}

struct PostgresSchema<'s>(&'s PostgresStore);

impl PostgresSchema<'_> {
    /// Refuses a table that Citus distributes or replicates
    /// (<https://docs.citusdata.com/en/stable/develop/api_metadata.html>).
    async fn check_local(&self, table: &Table) -> Result<()> {
        let query = "SELECT pg_catalog.count(*) FROM pg_dist_partition
            WHERE logicalrelid = pg_catalog.to_regclass('{table}')";
        match self.row(query, table).await?.number(0) {
            0 => Ok(()),
            _ => Err(misconfigured(format!(
                "Citus plans the statements on {0}, which are not written for it; keep the table on \
                 the coordinator alone: SELECT undistribute_table('{0}')",
                table.quoted
            ))),
        }
    }
}

#[async_trait]
impl Schema for PostgresSchema<'_> {
    const VERSION: u32 = SCHEMA_VERSION;

    // With `quote_all_identifiers` the server quotes names of types and columns, too.
    const COLUMNS: &'static str = "SELECT a.attname,
        pg_catalog.btrim(pg_catalog.format_type(a.atttypid, NULL), '\"'), 0,
        CAST(NOT a.attnotnull AS integer), CAST(a.atthasdef OR a.attidentity <> '' AS integer),
        (SELECT pg_catalog.count(*) FROM pg_catalog.pg_collation AS l
            WHERE l.oid = a.attcollation AND NOT l.collisdeterministic)
        FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = pg_catalog.to_regclass('{table}') AND a.attnum > 0 AND NOT a.attisdropped";

    const INDEX_COLUMNS: &'static str = "SELECT i.indexrelid, CAST(k = 1 AS integer),
        CAST(i.indisunique AND i.indimmediate AND i.indpred IS NULL AS integer),
        pg_catalog.btrim(pg_catalog.pg_get_indexdef(i.indexrelid, k, true), '\"')
        FROM pg_catalog.pg_index AS i, pg_catalog.generate_series(1, i.indnkeyatts) AS k
        WHERE i.indrelid = pg_catalog.to_regclass('{table}') AND i.indisvalid";

    fn tables(&self) -> [Table; 2] {
        tables(self.0.config())
    }

    /// The name in the text is letters, digits and underscores, in quotes. Answers to simple
    /// queries are text.
    async fn rows(&self, query: &'static str, table: &Table) -> Result<Vec<CatalogueRow>> {
        let rows = self.0.read(query.replace("{table}", &table.quoted)).await?;
        let read = |row: &PgRow| {
            CatalogueRow::read(row.len(), |index| {
                let value: Option<String> = row.try_get_unchecked(index).map_err(decode)?;
                Ok(value.unwrap_or_default())
            })
        };
        rows.iter().map(read).collect()
    }

    async fn version(&self, table: &Table) -> Result<Option<u32>> {
        let query = "SELECT pg_catalog.obj_description(c.oid, 'pg_class'), CASE WHEN EXISTS (SELECT
                FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid)
                THEN 'p' ELSE c.relkind END, c.relpersistence
            FROM pg_catalog.pg_class AS c WHERE c.oid = pg_catalog.to_regclass('{table}')";
        let rows = self.rows(query, table).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let version = table.marked_version(row.text(0));
        let difference = match (row.text(1), row.text(2)) {
            _ if version.is_none() => return Ok(None),
            ("r", "p") => return Ok(version),
            ("r", "u") => {
                let set = format!("ALTER TABLE {} SET LOGGED", table.quoted);
                format!("it is UNLOGGED, so a crash of the server empties it; {set}")
            }
            ("r", _) => "it is a temporary table, which nobody else sees; name the schema of the \
                 right one"
                .to_owned(),
            // A purge of one partition's rows would delete others' rows, too.
            ("p", _) => "it is partitioned, or others inherit from it. Each partition with a unique \
                 index of its own lets a key in again, and partitions share the values of `ctid`, by \
                 which the statements delete"
                .to_owned(),
            (kind, _) => {
                format!(
                    "it is no plain table (relkind {kind}), which the statements need; rename it"
                )
            }
        };
        Err(differs(table, &difference))
    }

    fn alter(table: &str, column: &NeededColumn<'_>) -> String {
        let (name, kind) = (column.name, column.definition.trim_end_matches(" NOT NULL"));
        let set = if column.is_nullable { "DROP" } else { "SET" };
        format!(
            "ALTER TABLE {table} ALTER COLUMN {name} TYPE {kind}, ALTER COLUMN {name} {set} NOT NULL"
        )
    }

    async fn check_access(&self, table: &Table) -> Result<()> {
        let query = "SELECT CAST(pg_catalog.row_security_active(c.oid) AS integer),
            pg_catalog.concat_ws(', ',
                CASE WHEN NOT pg_catalog.has_table_privilege(c.oid, 'SELECT') THEN 'SELECT' END,
                CASE WHEN NOT pg_catalog.has_table_privilege(c.oid, 'INSERT') THEN 'INSERT' END,
                CASE WHEN NOT pg_catalog.has_table_privilege(c.oid, 'UPDATE') THEN 'UPDATE' END,
                CASE WHEN NOT pg_catalog.has_table_privilege(c.oid, 'DELETE') THEN 'DELETE' END),
            current_user,
            CAST(pg_catalog.to_regclass('pg_dist_partition') IS NOT NULL AS integer)
            FROM pg_catalog.pg_class AS c WHERE c.oid = pg_catalog.to_regclass('{table}')";
        let row = self.row(query, table).await?;
        if row.number(3) != 0 {
            self.check_local(table).await?;
        }
        let (table_name, role) = (&table.quoted, format!("\"{}\"", row.text(2)));
        if !row.text(1).is_empty() {
            return Err(lacks_privileges(table, &role, row.text(1)));
        }
        match row.number(0) {
            0 => Ok(()),
            _ => Err(misconfigured(format!(
                "row security is active on {table_name} for the role {role}: it may not see every \
                 record; ALTER TABLE {table_name} DISABLE ROW LEVEL SECURITY"
            ))),
        }
    }

    /// Sends one simple query, which is one transaction: no BEGIN stays open when this future is
    /// dropped, and the lock ends with it, behind a pooler too. CREATE … IF NOT EXISTS by itself is
    /// not safe against a concurrent one. The read of a catalogue makes the server notice commits
    /// that happened while it waited for the lock; taking an advisory lock does not.
    async fn create(&self, missing: &[Table]) -> Result<()> {
        let config = self.0.config();
        let ddl: String = missing.iter().map(|table| &*table.ddl).collect();
        let script = format!(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;\n\
             SET LOCAL lock_timeout = 0;\n\
             SELECT pg_catalog.pg_advisory_xact_lock({});\n\
             SELECT pg_catalog.count(*) FROM pg_catalog.pg_namespace;\n{}{ddl}",
            lock_number(config),
            schema_ddl(config)
        );
        let create = || sqlx::raw_sql(AssertSqlSafe(script.clone())).execute(&self.0.pool);
        let created = create_once_more(create, is_created_elsewhere).await;
        created.map_err(|error| classify(error, Access::Write))?;
        Ok(())
    }
}

/// Returns whether another session created the same object between the read and the creation:
/// unique_violation of a catalogue, duplicate_schema, duplicate_table, duplicate_object.
fn is_created_elsewhere(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("23505" | "42P06" | "42P07" | "42710"))
}

/// Returns the number of this table's advisory lock, so that migrations of other tables do not
/// wait.
fn lock_number(config: &Config) -> i64 {
    fnv_1a(&config.qualified_table()).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_schema_names_the_configured_table() {
        let config = Config::new()
            .with_schema("billing")
            .and_then(|config| config.with_table("dedup"))
            .unwrap();
        let sql = schema_sql(&config);
        assert!(sql.starts_with("CREATE SCHEMA IF NOT EXISTS \"billing\";\n"));
        assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"billing\".\"dedup\" ("));
        assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"billing\".\"dedup_watermarks\" ("));
        assert!(sql.contains("\"dedup_marks_at\" ON \"billing\".\"dedup_watermarks\""));
        assert!(sql.contains("\"dedup_purge_at\" ON \"billing\".\"dedup\""));
        assert!(!sql.contains('{'));
        assert!(!schema_sql(&Config::new()).contains("SCHEMA IF"));
    }
}
