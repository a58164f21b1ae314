//! The tables and their indexes, their migration and their verification.

use idem_core::{Effect, Error, ErrorKind, Result, async_trait};
use idem_sql::cells::Row;
use idem_sql::executor::BoundStatement;
use idem_sql::parameters::Value;
use idem_sql::schema::{self, CatalogueRow, NeededColumn, Schema, Table, differs};
use sqlx::{AssertSqlSafe, Executor};

use crate::config::Config;
use crate::error::{Access, classify};
use crate::server::Server;
use crate::store::{BACKEND, MySqlStore};

/// The version of the schema that this crate works with, of each of its tables.
pub const SCHEMA_VERSION: u32 = 1;

const TEMPLATES: [&str; 2] = [include_str!("schema.sql"), include_str!("schema_marks.sql")];

/// Returns the DDL as text, for applications that run their own migrations; [`MySqlStore::migrate`]
/// runs the same.
///
/// The text may run any number of times.
#[must_use]
pub fn schema_sql(config: &Config) -> String {
    database_sql(config).unwrap_or_default() + &tables(config).map(|table| table.ddl).concat()
}

fn database_sql(config: &Config) -> Option<String> {
    let database = config.database()?;
    Some(format!("CREATE DATABASE IF NOT EXISTS `{database}`;\n"))
}

fn tables(config: &Config) -> [Table; 2] {
    let quoted = [config.qualified_table(), config.qualified_marks()];
    Table::both(config.table(), quoted, TEMPLATES)
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
        schema::migrate(&MySqlSchema(self)).await.map_err(at)
    }

    /// Checks that the server and the tables suit this crate. The tables must exist, in this
    /// version, with the columns, key and index that the statements need, and the user must have
    /// the privileges for them. Changes nothing: the statements that test the privileges meet no
    /// row.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the remedy; `Unavailable` as usual, and when a server that is read only
    /// answers the reads, also for a user who may write there.
    pub async fn verify(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "verify");
        self.check_server().await.map_err(at)?;
        schema::verify(&MySqlSchema(self)).await.map_err(at)
    }

    async fn check_server(&self) -> Result<()> {
        let server = Server::read(&mut self.session()).await?;
        server.check(self.config())
    }
}

struct MySqlSchema<'s>(&'s MySqlStore);

#[async_trait]
impl Schema for MySqlSchema<'_> {
    const VERSION: u32 = SCHEMA_VERSION;

    // Texts are compared as bytes: any other text would have the collation of the session. All
    // values come as bytes.
    const COLUMNS: &'static str = "SELECT CAST(column_name AS BINARY),
            CONCAT(CAST(data_type AS BINARY),
                IF(CAST(column_type AS BINARY) LIKE _binary'%unsigned%', _binary' unsigned', _binary'')),
            CAST(CONVERT(COALESCE(character_octet_length, 0) USING ascii) AS BINARY),
            IF(CAST(is_nullable AS BINARY) = _binary'YES', _binary'1', _binary'0'),
            IF(column_default IS NOT NULL OR LENGTH(extra) > 0, _binary'1', _binary'0'), _binary'0'
        FROM information_schema.columns
        WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?";

    // Batches are in the order of keys, in which the server locks the rows of the printed primary
    // key: with another order two batches could wait for each other. A part of a column (`sub_part`)
    // takes different keys for equal.
    const INDEX_COLUMNS: &'static str = "SELECT CAST(index_name AS BINARY),
            IF(seq_in_index = 1, _binary'1', _binary'0'),
            IF(CAST(index_name AS BINARY) = _binary'PRIMARY' AND sub_part IS NULL
                AND CAST(column_name AS BINARY)
                    = ELT(seq_in_index, _binary'scope', _binary'operation', _binary'id'),
                _binary'1', _binary'0'),
            CAST(column_name AS BINARY)
        FROM information_schema.statistics
        WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?";

    fn tables(&self) -> [Table; 2] {
        tables(self.0.config())
    }

    async fn rows(&self, query: &'static str, table: &Table) -> Result<Vec<CatalogueRow>> {
        let database = self.0.config().database();
        let statement = BoundStatement {
            text: query.into(),
            values: vec![Value::OptionalText(database), Value::Text(&table.name)],
            is_persistent: true,
        };
        let rows = self.0.session().rows(&statement, Access::Read).await?;
        let read = |row: &Row| {
            CatalogueRow::read(row.width(), |index| {
                let bytes = row.bytes(index)?.unwrap_or_default();
                Ok(String::from_utf8_lossy(bytes).into_owned())
            })
        };
        rows.iter().map(read).collect()
    }

    async fn version(&self, table: &Table) -> Result<Option<u32>> {
        let query = "SELECT CAST(table_comment AS BINARY), CAST(engine AS BINARY)
            FROM information_schema.tables
            WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?";
        let rows = self.rows(query, table).await?;
        let version = rows
            .first()
            .and_then(|row| table.marked_version(row.text(0)));
        if version.is_some() && rows.iter().any(|row| row.text(1) != "InnoDB") {
            let set = format!("ALTER TABLE {} ENGINE = InnoDB", table.quoted);
            let not_kept = "it is no table of InnoDB, which keeps what was committed";
            return Err(differs(table, &format!("{not_kept}; {set}")));
        }
        Ok(version)
    }

    fn alter(table: &str, column: &NeededColumn<'_>) -> String {
        format!(
            "ALTER TABLE {table} MODIFY {} {}",
            column.name, column.definition
        )
    }

    /// Sends a statement of each kind that meets no row, so that the server reports missing
    /// privileges.
    async fn check_access(&self, table: &Table) -> Result<()> {
        let names: Vec<_> = table.columns().iter().map(|column| column.name).collect();
        let (table, column, names) = (&table.quoted, names[0], names.join(", "));
        for sql in [
            format!("SELECT {names} FROM {table} WHERE 0 = 1 FOR UPDATE"),
            format!("INSERT INTO {table} ({names}) SELECT {names} FROM {table} WHERE 0 = 1"),
            format!("UPDATE {table} SET {column} = {column} WHERE 0 = 1"),
            format!("DELETE FROM {table} WHERE 0 = 1"),
        ] {
            let statement = BoundStatement {
                text: sql.as_str().into(),
                values: Vec::new(),
                is_persistent: false,
            };
            let kind = sql.split(' ').next().unwrap_or_default();
            let rows = self.0.session().rows(&statement, Access::Read).await;
            rows.map_err(|error| refused(error, kind, table))?;
        }
        Ok(())
    }

    /// Runs in its own task, on a connection that is closed afterwards: statements that define data
    /// take time, and a future of the driver must not be dropped half-way.
    async fn create(&self, missing: &[Table]) -> Result<()> {
        let (pool, database) = (self.0.pool.clone(), database_sql(self.0.config()));
        let tables = missing.iter().map(|table| table.ddl.clone());
        let script: Vec<_> = database.into_iter().chain(tables).collect();
        let created = tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            connection.close_on_drop();
            for sql in script {
                connection.execute(AssertSqlSafe(sql)).await?;
            }
            Ok(())
        });
        let created = created.await.unwrap_or(Err(sqlx::Error::WorkerCrashed));
        created.map_err(|error| classify(error, Access::Write))
    }
}

/// Says which statement was refused.
fn refused(error: Error, kind: &str, table: &str) -> Error {
    if error.kind() != ErrorKind::Misconfigured {
        return error;
    }
    let message = format!(
        "the user may not {kind} on {table}: {error}; GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO this user"
    );
    Error::new(ErrorKind::Misconfigured, Effect::None, message).with_source(error)
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
