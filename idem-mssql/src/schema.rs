//! The migration that creates the tables, and the check that they exist.

use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::schema::{MAX_TRIES, is_current, misconfigured};

use crate::ddl::{SCHEMA_VERSION, create_script};
use crate::error::{Access, classify, is_created_elsewhere};
use crate::row::Columns;
use crate::session::{ConnectionGuard, Query};
use crate::store::{BACKEND, MssqlStore};

/// The first release that is still supported and has everything that the statements use.
const MIN_RELEASE: u32 = 2017;

impl MssqlStore {
    /// Creates the schema (if one is configured), the tables and their indexes where they are
    /// missing, and checks server and version. An existing table is left alone, so an installation
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
    /// `Misconfigured` when the server is older than SQL Server 2017, a permission is missing, or
    /// the table is of a later version; `Contention` when others hold the lock for too long;
    /// `Unavailable` as usual.
    ///
    /// # Cancellation
    ///
    /// All of it happens, or nothing.
    pub async fn migrate(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "migrate");
        self.check_server().await.map_err(at)?;
        if self.is_complete().await.map_err(at)? {
            return Ok(());
        }
        for _ in 1..MAX_TRIES {
            match self.create().await {
                Err(error) if is_created_elsewhere(&error) => {}
                result => return result.map_err(at),
            }
        }
        self.create().await.map_err(at)
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
        let row = results.iter().flatten().next();
        let row = Columns(row.ok_or_else(|| Error::corrupt("a lock's answer has no row"))?);
        if row.number(0)? >= 0 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Contention,
            Effect::None,
            "somebody else has been creating the table for too long (sp_getapplock); try again",
        ))
    }

    /// Checks that the server and the tables suit this crate. The tables must exist, in this
    /// version, and their columns, keys, indexes and triggers and this user's privileges must be as
    /// the statements need them. Only reads.
    ///
    /// A server may hide a trigger from a user who has no right to its definition. Babelfish hides it
    /// from everybody except its owner. Run this as the owner of the tables to see every difference.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the remedy; `Unavailable` as usual.
    pub async fn verify(&self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "verify");
        self.check_server().await.map_err(at)?;
        if self.is_complete().await.map_err(at)? {
            return self.verify_shape().await.map_err(at);
        }
        let config = &self.operations.config;
        Err(at(misconfigured(format!(
            "{}, {} or {} is missing, not this crate's, or not to be seen by this user; run `migrate()` or the \
             printed schema, or GRANT SELECT ON each of them TO the user",
            config.qualified_table(),
            config.qualified_marks(),
            config.qualified_version_table(),
        ))))
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

    /// Returns whether the tables exist in this version, by the table that holds the version.
    async fn is_complete(&self) -> Result<bool> {
        let query = Query::new(&self.operations.sql.schema_version);
        let rows = self.session().rows(query, Access::Read).await?;
        let Some(row) = rows.first() else {
            return Ok(false);
        };
        let has_marks = Columns(row).number(1)? == 1;
        let version = u32::try_from(Columns(row).number(0)?).ok();
        Ok(is_current(version, SCHEMA_VERSION)? && has_marks)
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
