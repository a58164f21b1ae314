//! The tables and their indexes, and the migration that creates them.

use idem_core::{Error, Result};
use idem_sql::schema::{MAX_TRIES, fnv_1a, is_current, misconfigured};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row};

use crate::config::{Config, StatementMode};
use crate::defaults::{SESSION, SessionState};
use crate::error::{Access, classify, decode};
use crate::inspection::no_row;
use crate::store::{BACKEND, PostgresStore};

/// The version of the schema that this crate works with, of each of its tables.
pub const SCHEMA_VERSION: u32 = 1;

const RECORDS: &str = include_str!("schema.sql");
const MARKS: &str = include_str!("schema_marks.sql");

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
    schema_ddl(config) + &ddl(config, RECORDS) + &ddl(config, MARKS)
}

fn schema_ddl(config: &Config) -> String {
    let create = |schema| format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\";\n");
    config.schema().map(create).unwrap_or_default()
}

fn ddl(config: &Config, template: &str) -> String {
    let table = config.table();
    template
        .replace("{table}", &config.qualified_table())
        .replace("{purge_index}", &format!("\"{table}_purge_at\""))
        .replace("{sweep_index}", &format!("\"{table}_sweep_at\""))
        .replace("{marks}", &config.qualified_marks())
        .replace("{marks_index}", &format!("\"{table}_marks_at\""))
}

impl PostgresStore {
    /// Creates the schema (if one is configured), the tables and their indexes where they are
    /// missing, and checks server and version. An existing table is left alone, so an installation
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
    /// `Misconfigured` when the server is older than PostgreSQL 12, the database's encoding is not
    /// UTF8, a privilege is missing, or a table is of a later version; `Unavailable` as usual.
    ///
    /// # Cancellation
    ///
    /// All of it happens, or nothing.
    pub async fn migrate(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "migrate");
        self.check_server().await.map_err(at)?;
        let missing = self.missing().await.map_err(at)?;
        if missing.is_empty() {
            return Ok(());
        }
        for _ in 1..MAX_TRIES {
            match self.create(&missing).await {
                Err(error) if is_created_elsewhere(&error) => {}
                result => return result.map_err(|error| at(classify(error, Access::Write))),
            }
        }
        self.create(&missing)
            .await
            .map_err(|error| at(classify(error, Access::Write)))
    }

    /// Returns the DDL of the tables that are missing in this version.
    async fn missing(&self) -> Result<String> {
        let config = &self.operations.config;
        let tables = [
            (config.qualified_table(), RECORDS),
            (config.qualified_marks(), MARKS),
        ];
        let mut missing = String::new();
        for (table, template) in tables {
            if !is_current(self.schema_version(table).await?, SCHEMA_VERSION)? {
                missing += &ddl(config, template);
            }
        }
        Ok(missing)
    }

    /// Sends one simple query, which is one transaction: no BEGIN stays open when this future is
    /// dropped, and the lock ends with it, behind a pooler too. CREATE … IF NOT EXISTS by itself is
    /// not safe against a concurrent one. The read of a catalogue makes the server notice commits
    /// that happened while it waited for the lock; taking an advisory lock does not.
    async fn create(&self, missing: &str) -> Result<(), sqlx::Error> {
        let config = &self.operations.config;
        let script = format!(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;\n\
             SET LOCAL lock_timeout = 0;\n\
             SELECT pg_catalog.pg_advisory_xact_lock({});\n\
             SELECT pg_catalog.count(*) FROM pg_catalog.pg_namespace;\n{}{missing}",
            lock_number(config),
            schema_ddl(config)
        );
        let script = sqlx::raw_sql(AssertSqlSafe(script));
        script.execute(&self.pool).await.map(drop)
    }

    /// Checks that the server, the session's defaults and the tables suit this crate. The tables
    /// must exist, in this version, with the columns, types, keys and indexes that the statements
    /// need, and the role may read and write them. Only reads.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the remedy; `Unavailable` as usual.
    pub async fn verify(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "verify");
        self.check_server().await.map_err(at)?;
        if !self.missing().await.map_err(at)?.is_empty() {
            return Err(at(misconfigured(
                "a table is missing or not this crate's; run `migrate()` or the printed schema",
            )));
        }
        let config = self.config();
        for (table, template) in [
            (config.qualified_table(), RECORDS),
            (config.qualified_marks(), MARKS),
        ] {
            self.verify_table(&table, template).await.map_err(at)?;
        }
        Ok(())
    }

    async fn check_server(&self) -> Result<()> {
        let rows = self.read(SESSION.to_owned()).await?;
        let row = rows.first().ok_or_else(|| no_row("the session"))?;
        let session = SessionState::of(row)?;
        session.check_server()?;
        // Unprepared statements run in transactions that set their own characteristics.
        session.check_defaults(self.config().statement_mode() == StatementMode::Prepared)
    }

    /// Returns the version in the table's comment; `None` when there is no such table or comment.
    async fn schema_version(&self, table: String) -> Result<Option<u32>> {
        // Letters, digits and underscores, in quotes.
        let sql = format!(
            "SELECT pg_catalog.obj_description(pg_catalog.to_regclass('{table}'), 'pg_class')"
        );
        let rows = self.read(sql).await?;
        let comment: Option<String> = match rows.first() {
            Some(row) => row.try_get(0).map_err(decode)?,
            None => None,
        };
        Ok(comment.and_then(|comment| comment.rsplit(' ').next()?.parse().ok()))
    }

    /// Sends a simple query, which no pooler mixes up with another.
    pub(crate) async fn read(&self, sql: String) -> Result<Vec<PgRow>> {
        let query = sqlx::raw_sql(AssertSqlSafe(sql));
        let rows = tokio::time::timeout(self.config().timeout(), query.fetch_all(&self.pool)).await;
        let rows = rows.map_err(|_| Access::Read.timed_out(self.config().timeout()))?;
        rows.map_err(|error| classify(error, Access::Read))
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
