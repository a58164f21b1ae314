//! The tables and their indexes, and the migration that creates them.

use idem_core::{Error, Result};
use idem_sql::schema::{is_current, misconfigured};
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::config::Config;
use crate::error::{Access, classify, decode};
use crate::server::Server;
use crate::store::{BACKEND, MySqlStore};

/// The version of the schema that this crate works with, of each of its tables.
pub const SCHEMA_VERSION: u32 = 1;

const RECORDS: &str = include_str!("schema.sql");
const MARKS: &str = include_str!("schema_marks.sql");

/// Returns the DDL as text, for applications that run their own migrations; [`MySqlStore::migrate`]
/// runs the same.
///
/// The text may run any number of times.
#[must_use]
pub fn schema_sql(config: &Config) -> String {
    let tables = [RECORDS, MARKS].map(|template| table_sql(config, template));
    let statements = database_sql(config).into_iter().chain(tables);
    statements.map(|sql| sql + ";\n").collect()
}

fn database_sql(config: &Config) -> Option<String> {
    let database = config.database()?;
    Some(format!("CREATE DATABASE IF NOT EXISTS `{database}`"))
}

fn table_sql(config: &Config, template: &str) -> String {
    let table = config.table();
    template
        .trim_end()
        .trim_end_matches(';')
        .replace("{table}", &config.qualified_table())
        .replace("{purge_index}", &format!("`{table}_purge_at`"))
        .replace("{marks}", &config.qualified_marks())
        .replace("{marks_index}", &format!("`{table}_marks_at`"))
}

impl MySqlStore {
    /// Creates the database (if one is configured) and the tables with their indexes where they are
    /// missing, and checks server and versions. An existing table is left alone, so an installation
    /// without a table of watermarks gets one while it stays in use. Safe when many processes start
    /// at once; when there is nothing to do it only reads.
    ///
    /// The user needs CREATE on the database. For everything else SELECT, INSERT, UPDATE and DELETE
    /// on the two tables are enough.
    ///
    /// *Atomicity*: a table and its indexes are one statement, which the server does as a whole or
    /// not at all ("Atomic Data Definition Statement Support",
    /// <https://dev.mysql.com/doc/refman/8.4/en/atomic-ddl.html>; MariaDB since 10.6).
    ///
    /// # Errors
    ///
    /// - `Misconfigured` when the server is older than MySQL 8.0 or MariaDB 10.6, or set up in an
    ///   unsuitable way; when a privilege is missing; when a table is of a later version, is not
    ///   this crate's, or lacks a part that the statements need.
    /// - `Unavailable` as usual.
    ///
    /// # Cancellation
    ///
    /// A statement that was sent still takes effect.
    pub async fn migrate(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "migrate");
        self.check_server().await.map_err(at)?;
        let missing = self.missing().await.map_err(at)?;
        if !missing.is_empty() {
            self.create(missing).await.map_err(at)?;
            self.check_version().await.map_err(at)?;
        }
        self.check_tables().await.map_err(at)
    }

    /// Checks that the server and the tables suit this crate. The tables must exist, in this
    /// version, with the columns, key and index that the statements need, and the user must have
    /// the privileges for them. Changes nothing: the statements that test the privileges meet no
    /// row.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the remedy; `Unavailable` as usual.
    pub async fn verify(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "verify");
        self.check_server().await.map_err(at)?;
        self.check_version().await.map_err(at)?;
        self.check_tables().await.map_err(at)?;
        self.check_privileges().await.map_err(at)
    }

    async fn check_server(&self) -> Result<()> {
        let server = Server::read(&mut self.session()).await?;
        server.check(self.config())
    }

    async fn check_version(&self) -> Result<()> {
        if self.missing().await?.is_empty() {
            return Ok(());
        }
        Err(misconfigured(
            "a table is missing, not this crate's, or hidden from a user without a privilege on it; run `migrate()` or \
             the printed schema, or grant SELECT, INSERT, UPDATE and DELETE on both tables"
                .to_owned(),
        ))
    }

    /// Returns the statements that create the tables that are missing in this version.
    async fn missing(&self) -> Result<Vec<String>> {
        let config = self.config();
        let tables = [
            (config.table().to_owned(), "idem records", RECORDS),
            (config.marks(), "idem watermarks", MARKS),
        ];
        let mut missing = Vec::new();
        for (table, what, template) in tables {
            if !is_current(self.schema_version(&table, what).await?, SCHEMA_VERSION)? {
                missing.push(table_sql(config, template));
            }
        }
        Ok(missing)
    }

    /// Runs in its own task, on a connection that is closed afterwards: statements that define data
    /// take time, and a future of the driver must not be dropped half-way.
    async fn create(&self, tables: Vec<String>) -> Result<()> {
        let (pool, config) = (self.pool.clone(), self.config().clone());
        let created = tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            connection.close_on_drop();
            if let Some(sql) = database_sql(&config) {
                connection.execute(AssertSqlSafe(sql)).await?;
            }
            for sql in tables {
                connection.execute(AssertSqlSafe(sql)).await?;
            }
            Ok(())
        });
        let created = created.await.unwrap_or(Err(sqlx::Error::WorkerCrashed));
        created.map_err(|error| classify(error, Access::Write))
    }

    /// Returns the version in the table's comment; `None` when there is no such table or comment.
    async fn schema_version(&self, table: &str, what: &str) -> Result<Option<u32>> {
        let config = self.config();
        let query = || {
            sqlx::query(
                "SELECT CAST(table_comment AS BINARY) FROM information_schema.tables
                WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?",
            )
            .bind(config.database())
            .bind(table)
        };
        let rows = self.session().rows(query, Access::Read).await?;
        let comment: &[u8] = match rows.first() {
            Some(row) => row.try_get_unchecked(0).map_err(decode)?,
            None => return Ok(None),
        };
        let comment = String::from_utf8_lossy(comment);
        let version = comment.strip_prefix(&format!("{what}, schema version "));
        Ok(version.and_then(|version| version.parse().ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_schema_names_the_configured_table() {
        let config = Config::new()
            .with_database("billing")
            .and_then(|config| config.with_table("dedup"))
            .unwrap();
        let sql = schema_sql(&config);
        assert!(sql.starts_with("CREATE DATABASE IF NOT EXISTS `billing`;\n"));
        assert!(sql.contains("CREATE TABLE IF NOT EXISTS `billing`.`dedup` ("));
        assert!(sql.contains("CREATE TABLE IF NOT EXISTS `billing`.`dedup_watermarks` ("));
        assert!(sql.contains("KEY `dedup_marks_at` (expires_at)"));
        assert!(sql.contains("KEY `dedup_purge_at` (purge_at)"));
        assert!(sql.contains(&format!("schema version {SCHEMA_VERSION}';\n")));
        assert!(!sql.contains('{'));
        assert!(!schema_sql(&Config::new()).contains("CREATE DATABASE"));
    }
}
