//! The migration of the tables and their verification.

use idem_core::{Effect, Error, ErrorKind, Result, async_trait};
use idem_sql::cells::Row;
use idem_sql::parameters::Value;
use idem_sql::schema::{
    self, CatalogueRow, NeededColumn, Schema, Table, create_once_more, differs, lacks_privileges,
    misconfigured,
};

use crate::ddl::{SCHEMA_VERSION, create_script, tables};
use crate::error::{Access, classify, is_created_elsewhere};
use crate::executor::first_number;
use crate::session::{ConnectionGuard, Query};
use crate::sql;
use crate::statements::Statement;
use crate::store::{BACKEND, MssqlStore};

/// The first release that is still supported and has everything that the statements use.
const MIN_RELEASE: u32 = 2017;

/// In the order of the server's answer.
const PRIVILEGES: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

impl MssqlStore {
    /// Creates the schema (if one is configured), the tables and their indexes where they are
    /// missing, and checks server and tables. An existing table is left alone, so an installation
    /// without a table of watermarks gets one while it stays in use. Safe when many processes start
    /// at once; when there is nothing to do it only reads.
    ///
    /// The user needs CREATE TABLE in the database and ALTER on the schema, and CREATE SCHEMA for
    /// the schema itself. For everything else SELECT, INSERT, UPDATE and DELETE on the two tables
    /// are enough, and SELECT on the third table, which holds the version.
    ///
    /// *Atomicity*: all in one transaction, one process at a time (`sp_getapplock`).
    ///
    /// # Errors
    ///
    /// - `Misconfigured` when the server is older than SQL Server 2017 or a permission is missing;
    ///   when a table is of a later version, is not this crate's, or lacks a part that the
    ///   statements need.
    /// - `Contention` when others hold the lock for too long; `Unavailable` as usual.
    ///
    /// # Cancellation
    ///
    /// All of it happens, or nothing.
    pub async fn migrate(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "migrate");
        self.check_server().await.map_err(at)?;
        schema::migrate(&MssqlSchema(self)).await.map_err(at)
    }

    /// Checks that the server and the tables suit this crate. The tables must exist, in this
    /// version, and their columns, keys, indexes and triggers and this user's privileges must be as
    /// the statements need them. Only reads.
    ///
    /// A server may hide a trigger from a user without the right to its definition. Babelfish hides
    /// it from all users except its owner. Run this as the owner of the tables to see every
    /// difference.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the remedy; `Unavailable` as usual.
    pub async fn verify(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "verify");
        self.check_server().await.map_err(at)?;
        schema::verify(&MssqlSchema(self)).await.map_err(at)
    }

    /// Runs one script with one transaction in it, so that nothing is left open when this future is
    /// dropped: the connection is then closed, and an error rolls back (`XACT_ABORT`). The
    /// connection is closed in any case: a script's settings outlast it, and no other user of the
    /// pool may get them. The check for the table and its creation are not atomic by themselves, so
    /// the script takes a lock.
    async fn create(&self) -> Result<()> {
        let config = &self.operations.config;
        let script = create_script(config);
        let work = async {
            let mut connection = ConnectionGuard::from(&self.pool).await?;
            let results = connection.run_script(&script).await;
            connection.mark_dirty();
            results.map_err(|error| classify(error, Access::Write))
        };
        let results = match tokio::time::timeout(config.timeout(), work).await {
            Ok(results) => results?,
            Err(_) => return Err(Access::Write.timed_out(config.timeout())),
        };
        if first_number(results)? >= 0 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Contention,
            Effect::None,
            "somebody else has been creating the table for too long (sp_getapplock); try again",
        ))
    }

    async fn check_server(&self) -> Result<()> {
        let version = self.operations.server_version(&mut self.session()).await?;
        match release(&version) {
            Some(release) if release < MIN_RELEASE => Err(misconfigured(format!(
                "the server is SQL Server {release}; SQL Server {MIN_RELEASE} or later is needed"
            ))),
            _ => Ok(()),
        }
    }
}

struct MssqlSchema<'s>(&'s MssqlStore);

#[async_trait]
impl Schema for MssqlSchema<'_> {
    const VERSION: u32 = SCHEMA_VERSION;
    const COLUMNS: &'static str = sql::COLUMNS_OF_TABLE;
    const INDEX_COLUMNS: &'static str = sql::INDEX_COLUMNS_OF_TABLE;

    fn tables(&self) -> [Table; 2] {
        tables(&self.0.operations.config)
    }

    async fn rows(&self, query: &'static str, table: &Table) -> Result<Vec<CatalogueRow>> {
        let version_table = self.0.operations.config.qualified_version_table();
        let statement = Statement::plain(query.replace("{version_table}", &version_table));
        let query = Query::new(&statement, vec![Value::OptionalText(Some(&table.quoted))]);
        let rows = self.0.session().rows(query, Access::Read).await?;
        let read = |row: &Row| {
            CatalogueRow::read(row.width(), |index| {
                if let Ok(number) = row.number(index) {
                    return Ok(number.unwrap_or_default().to_string());
                }
                Ok(row.text(index)?.unwrap_or_default().to_owned())
            })
        };
        rows.iter().map(read).collect()
    }

    async fn version(&self, table: &Table) -> Result<Option<u32>> {
        let rows = self.rows(sql::VERSION_OF_TABLE, table).await?;
        Ok(rows.first().and_then(|row| row.text(0).parse().ok()))
    }

    fn alter(table: &str, column: &NeededColumn<'_>) -> String {
        format!(
            "ALTER TABLE {table} ALTER COLUMN {} {}",
            column.name, column.definition
        )
    }

    async fn check_access(&self, table: &Table) -> Result<()> {
        let row = self.row(sql::ACCESS_TO_TABLE, table).await?;
        if row.text(0) == "READ_ONLY" {
            return Err(misconfigured(
                "the database only reads; connect to the primary, without read-only intent",
            ));
        }
        if row.number(1) > 0 {
            let difference = "it has a trigger, and the statements cannot run beside one (334); \
                              drop or disable it";
            return Err(differs(table, difference));
        }
        let privileges = PRIVILEGES.iter().zip(3..);
        let lacks = privileges.filter(|(_, column)| row.number(*column) != 1);
        let lacks: Vec<_> = lacks.map(|(privilege, _)| *privilege).collect();
        match lacks.is_empty() {
            true => Ok(()),
            false => Err(lacks_privileges(table, row.text(2), &lacks.join(", "))),
        }
    }

    /// The script checks again which tables are missing, under its lock.
    async fn create(&self, _missing: &[Table]) -> Result<()> {
        create_once_more(|| self.0.create(), is_created_elsewhere).await
    }
}

/// Returns the year in `Microsoft SQL Server 2019 (RTM) …`. Azure SQL has none, and is never too
/// old.
fn release(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("Microsoft SQL Server ")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        for (version, expected) in [
            (
                "Microsoft SQL Server 2016 (SP3) (KB5003279) - 13.0",
                Some(2016),
            ),
            (
                "Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64)",
                Some(2022),
            ),
            ("Microsoft SQL Azure (RTM) - 12.0.2000.8", None),
            ("Babelfish for PostgreSQL", None),
        ] {
            assert_eq!(release(version), expected, "{version}");
        }
    }
}
