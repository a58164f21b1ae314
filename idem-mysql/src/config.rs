//! How a store is set up.

use std::time::Duration;

use idem_core::{Error, Limits, Result};

/// Names, limits and what the server can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    database: Option<String>,
    table: String,
    limits: Limits,
    returning: Returning,
    claim_order: ClaimOrder,
    sync_wait: Option<u8>,
    timeout: Duration,
    batching: bool,
    max_connections: u32,
}

/// Whether `INSERT … RETURNING` is used in callers' transactions, where it spares a fresh claim a round trip. MariaDB has it
/// since 10.5, MySQL has not. Elsewhere the answer to a plain INSERT tells as much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Returning {
    /// Where the server's version says MariaDB; asked once, by [`connect`](crate::MySqlStore::connect) or the first
    /// claim.
    #[default]
    Detect,
    /// Always, in transactions and elsewhere: behind a pooler that shows a version of its own, or does not hand on what an
    /// INSERT answers, and has MariaDB behind it.
    Always,
    /// Never.
    Never,
}

/// Which statement a claim sends first, outside of callers' transactions. It changes no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimOrder {
    /// What was the better one for the operation's last few dozen claims: where keys are mostly fresh the insert, which then
    /// is the only statement, otherwise the look. The operations that the store knows to be used in callers' transactions
    /// are looked for first.
    #[default]
    Adaptive,
    /// The look: whatever the traffic, a duplicate meets no lock and takes none, and a fresh key costs a round trip more.
    LookFirst,
    /// The insert: a duplicate costs a round trip more, and one whose record somebody has locked a wait of
    /// [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT) at most.
    InsertFirst,
}

/// MySQL and MariaDB take names of at most 64 characters; those of the indexes and of the table of watermarks are longer by
/// up to eleven.
const MAX_TABLE_BYTES: usize = 50;
/// A year: longer times add up to no instant.
pub(crate) const LONGEST_TIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// <https://dev.mysql.com/doc/refman/8.4/en/identifier-length.html>.
const MAX_DATABASE_BYTES: usize = 64;

impl Config {
    /// The tables `idem_records` and `idem_records_watermarks` in the database of the connection; default limits;
    /// 10 s for an operation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            database: None,
            table: "idem_records".to_owned(),
            limits: Limits::DEFAULT,
            returning: Returning::default(),
            claim_order: ClaimOrder::default(),
            sync_wait: None,
            timeout: Duration::from_secs(10),
            batching: true,
            max_connections: 10,
        }
    }

    /// Another name for the table: 1 to 50 ASCII letters, digits and underscores, no digit first. Watermarks are in a
    /// table of their own, whose name has `_watermarks` at the end.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when it is no such name.
    pub fn with_table(mut self, table: impl Into<String>) -> Result<Self> {
        self.table = checked("table", table.into(), MAX_TABLE_BYTES)?;
        Ok(self)
    }

    /// The database that the table is in, instead of the connection's: 1 to 64 characters as for the table.
    /// `migrate` creates it if it is missing.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when it is no such name.
    pub fn with_database(mut self, database: impl Into<String>) -> Result<Self> {
        self.database = Some(checked("database", database.into(), MAX_DATABASE_BYTES)?);
        Ok(self)
    }

    /// Other limits. A result has to fit into the server's `max_allowed_packet` (16 MiB on MariaDB, 64 MiB on MySQL
    /// unless set otherwise).
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether `INSERT … RETURNING` is used.
    #[must_use]
    pub fn with_returning(mut self, returning: Returning) -> Self {
        self.returning = returning;
        self
    }

    /// Which statement a claim sends first.
    #[must_use]
    pub fn with_claim_order(mut self, claim_order: ClaimOrder) -> Self {
        self.claim_order = claim_order;
        self
    }

    /// Sets `wsrep_sync_wait` on each connection that [`connect`](crate::MySqlStore::connect) makes to a node of a Galera
    /// cluster; on a pool of the caller's, `after_connect` is the place. 7 lets every statement wait until this node has
    /// applied what all nodes had committed before. Needed where one process goes on with what another did through another
    /// node: see the table of the [crate](crate). MySQL does not know it
    /// (<https://mariadb.com/kb/en/galera-cluster-system-variables/#wsrep_sync_wait>).
    #[must_use]
    pub fn with_wsrep_sync_wait(mut self, bits: u8) -> Self {
        self.sync_wait = Some(bits);
        self
    }

    /// Whether concurrent claims and completions of this process share statements, as behind
    /// [`Batched`](idem_core::wrappers::Batched); on by default. A caller who is alone asks at once either way.
    #[must_use]
    pub fn with_batching(mut self, batching: bool) -> Self {
        self.batching = batching;
        self
    }

    /// How long an operation may take, waiting for a connection included, before it is answered with
    /// `Unavailable`; at most a year. What the server was sent may still take effect then. For a key that an open
    /// transaction has locked it takes [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT), and is then answered with `Contention`.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(LONGEST_TIME);
        self
    }

    /// At most so many connections for the operations of a store that was made by
    /// [`connect`](crate::MySqlStore::connect), instead of 10; at least one. A store on the caller's pool has that
    /// pool's.
    #[must_use]
    pub fn with_max_connections(mut self, max: u32) -> Self {
        self.max_connections = max.max(1);
        self
    }

    /// The database, if one is set.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The table's name.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether `INSERT … RETURNING` is used.
    #[must_use]
    pub fn returning(&self) -> Returning {
        self.returning
    }

    /// Which statement a claim sends first.
    #[must_use]
    pub fn claim_order(&self) -> ClaimOrder {
        self.claim_order
    }

    /// What `wsrep_sync_wait` is set to, if it is.
    #[must_use]
    pub fn wsrep_sync_wait(&self) -> Option<u8> {
        self.sync_wait
    }

    /// Whether concurrent calls share statements.
    #[must_use]
    pub fn batching(&self) -> bool {
        self.batching
    }

    /// How long an operation may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How many connections operations may have.
    #[must_use]
    pub fn max_connections(&self) -> u32 {
        self.max_connections
    }

    /// The table's name, quoted, with the database if one is set.
    pub(crate) fn qualified_table(&self) -> String {
        self.qualified(&self.table)
    }

    /// The name of the table of watermarks.
    pub(crate) fn marks(&self) -> String {
        format!("{}_watermarks", self.table)
    }

    /// The same, quoted, with the database if one is set.
    pub(crate) fn qualified_marks(&self) -> String {
        self.qualified(&self.marks())
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

fn checked(what: &str, name: String, max: usize) -> Result<String> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let valid = !name.is_empty()
        && name.len() <= max
        && name.bytes().all(word)
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if valid {
        return Ok(name);
    }
    Err(Error::invalid_input(format!(
        "the name of the {what} has to be 1 to {max} ASCII letters, digits and underscores, and not \
         start with a digit"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_timeout_is_a_year() {
        let config = Config::new().with_timeout(Duration::MAX);
        assert_eq!(config.timeout(), LONGEST_TIME);
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
        for name in ["", "1a", "a-b", "a`b", "a.b", "é", "a b", &"x".repeat(51)] {
            assert!(Config::new().with_table(name).is_err(), "{name}");
        }
        assert!(Config::new().with_database("x".repeat(64)).is_ok());
        assert!(Config::new().with_database("x; DROP TABLE y").is_err());
    }
}
