//! The configuration of a store.

use std::time::Duration;

use idem_core::{Limits, Result};
use idem_sql::config::{MAX_TIME, checked_name};

/// The configuration of a store: names, limits, and the abilities of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    database: Option<String>,
    table: String,
    limits: Limits,
    inserts_first: Option<bool>,
    sync_wait: Option<u8>,
    timeout: Duration,
    batching: bool,
    max_connections: u32,
}

/// <https://dev.mysql.com/doc/refman/8.4/en/identifier-length.html>.
const MAX_DATABASE_BYTES: usize = 64;

impl Config {
    /// Creates the default configuration: the tables `idem_records` and `idem_records_watermarks`
    /// in the database of the connection; default limits; 10 s for an operation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            database: None,
            table: "idem_records".to_owned(),
            limits: Limits::DEFAULT,
            inserts_first: None,
            sync_wait: None,
            timeout: Duration::from_secs(10),
            batching: true,
            max_connections: 10,
        }
    }

    idem_sql::config_methods! {
        table: "",
        limits: "A result has to fit into the server's `max_allowed_packet` (16 MiB on MariaDB, 64 MiB on MySQL unless set \
                 otherwise).",
        timeout: "More than a year counts as a year. For a key that an open transaction has locked an operation takes \
                  [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT), and then returns `Contention`.",
        batching: "",
        longest: MAX_TIME
    }
    idem_sql::max_connections_methods! {}

    /// Sets the database of the tables, instead of the connection's: 1 to 64 characters, with the
    /// rules of table names. `migrate` creates it if it is missing.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) for any other name.
    pub fn with_database(mut self, database: impl Into<String>) -> Result<Self> {
        self.database = Some(checked_name("database", database, MAX_DATABASE_BYTES)?);
        Ok(self)
    }

    /// Fixes which statement a claim sends first, for tests: by default an estimator decides.
    #[doc(hidden)]
    #[must_use]
    pub fn with_inserts_first(mut self, inserts_first: bool) -> Self {
        self.inserts_first = Some(inserts_first);
        self
    }

    /// Sets `wsrep_sync_wait` on each connection that [`connect`](crate::MySqlStore::connect) makes
    /// to a node of a Galera cluster; for a caller's pool, set it in `after_connect`. With 7, every
    /// statement waits until this node has applied all earlier commits of all nodes. Needed where
    /// one process continues what another did through another node: see the table of the
    /// [crate](crate). MySQL does not know the variable
    /// (<https://mariadb.com/kb/en/galera-cluster-system-variables/#wsrep_sync_wait>).
    #[must_use]
    pub fn with_wsrep_sync_wait(mut self, bits: u8) -> Self {
        self.sync_wait = Some(bits);
        self
    }

    /// Returns the database, if one is set.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    pub(crate) fn inserts_first(&self) -> Option<bool> {
        self.inserts_first
    }

    /// Returns the value of `wsrep_sync_wait`, if one is set.
    #[must_use]
    pub fn wsrep_sync_wait(&self) -> Option<u8> {
        self.sync_wait
    }

    /// Returns the table's name, quoted, with the database if one is set.
    pub(crate) fn qualified_table(&self) -> String {
        self.qualified(&self.table)
    }

    /// Returns the same for the table of watermarks.
    pub(crate) fn qualified_marks(&self) -> String {
        self.qualified(&format!("{}_watermarks", self.table))
    }

    fn qualified(&self, table: &str) -> String {
        match &self.database {
            Some(database) => format!("`{database}`.`{table}`"),
            None => format!("`{table}`"),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_timeout_is_a_year() {
        let config = Config::new().with_timeout(Duration::MAX);
        assert_eq!(config.timeout(), MAX_TIME);
        assert!(
            std::time::Instant::now()
                .checked_add(config.timeout())
                .is_some()
        );
    }

    #[test]
    fn names_are_validated_and_quoted() {
        let config = Config::new()
            .with_database("Billing")
            .and_then(|config| config.with_table("idem_2"))
            .unwrap();
        assert_eq!(config.qualified_table(), "`Billing`.`idem_2`");
        assert_eq!(config.qualified_marks(), "`Billing`.`idem_2_watermarks`");
        assert!(Config::new().with_table("x".repeat(51)).is_err());
        assert!(Config::new().with_database("x".repeat(64)).is_ok());
        assert!(Config::new().with_database("x; DROP TABLE y").is_err());
    }
}
