//! The configuration of a store.

use std::time::Duration;

use idem_core::{Fingerprint, Limits, Result};
use idem_sql::config::{MAX_TIME, checked_name};

/// The configuration of a store: names, limits, and how statements are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    schema: Option<String>,
    table: String,
    limits: Limits,
    statements: StatementMode,
    timeout: Duration,
    batching: bool,
    notifications: Notifications,
    max_connections: u32,
    replays: Replays,
}

/// When an answer is returned that rests on an earlier commit: a replay, a conflict, a result that
/// was read, a completion that had been done before, a version that raises no mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Replays {
    /// As soon as this server has the commit.
    ///
    /// With synchronous replication the standbys may lack it. While a commit waits for them, no
    /// other session sees it. But the commit is visible once its wait ends without them: by a crash
    /// of the server, after its recovery, or by `pg_cancel_backend`. If the server is then lost,
    /// callers have got a result that no other server has.
    #[default]
    Committed,
    /// When the synchronous standbys have it, as `synchronous_commit` of the session says.
    ///
    /// Each such answer costs a second statement, which writes a commit of its own and waits for
    /// it: a message of a few bytes in the log (`pg_logical_emit_message`). The log is replicated in
    /// its order, so the standbys then have every earlier commit, too. A duplicate costs as much as
    /// a completion, and fails as `Unavailable` while the standbys are away.
    ///
    /// Nobody must cancel these waits: after `pg_cancel_backend` the server answers with success and
    /// a warning.
    Replicated,
}

/// Whether the server notifies waiting runs of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Notifications {
    /// No notifications: waiting runs poll.
    #[default]
    Off,
    /// Results, failures and releases are notified by `pg_notify`, in the statement that writes
    /// them, so when it commits.
    ///
    /// The price:
    ///
    /// - A transaction that notifies holds a lock on the whole database from just before its commit
    ///   is written until it is (`PreCommit_Notify` in
    ///   <https://github.com/postgres/postgres/blob/master/src/backend/commands/async.c>). So
    ///   completions commit one after the other, each with its flush of the log.
    /// - A transaction that notifies cannot be prepared for a two-phase commit.
    /// - A session that listens and never leaves its transaction fills the queue, until commits
    ///   that notify fail (<https://www.postgresql.org/docs/current/sql-notify.html>).
    Changes,
}

/// How statements are sent. The choice depends on the poolers between this program and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatementMode {
    /// Prepared once per connection under a name: one round trip per statement. For direct
    /// connections, poolers in session mode, and PgBouncer 1.21 and later in transaction mode with
    /// `max_prepared_statements` above the number of this crate's statements.
    /// [`connect`](crate::PostgresStore::connect) refuses a pooler that mixes them up.
    ///
    /// RDS Proxy pins each session that prepares a statement to one connection of the server
    /// (<https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/rds-proxy-pinning.html>): it works, and
    /// shares nothing. No RDS Proxy has been tried.
    #[default]
    Prepared,
    /// Not kept: each statement runs unnamed inside its own transaction, because a pooler in
    /// transaction mode keeps a client on one server only within a transaction. Four round trips
    /// instead of one. For PgBouncer before 1.21, similar poolers in transaction mode, and RDS Proxy
    /// where its clients are to share connections.
    Unprepared,
}

/// PostgreSQL cuts names at 63 bytes (NAMEDATALEN).
const MAX_SCHEMA_BYTES: usize = 63;

impl Config {
    /// Creates the default configuration: the tables `idem_records` and `idem_records_watermarks`,
    /// found through the connection's `search_path`; default limits; prepared statements; 10 s for
    /// an operation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            schema: None,
            table: "idem_records".to_owned(),
            limits: Limits::DEFAULT,
            statements: StatementMode::default(),
            timeout: Duration::from_secs(10),
            batching: true,
            notifications: Notifications::default(),
            max_connections: 10,
            replays: Replays::default(),
        }
    }

    idem_sql::config_methods! {
        table: "It is quoted, so capitals count.",
        limits: "PostgreSQL holds at most 1 GB in a field.",
        timeout: "More than a year counts as a year.",
        batching: "",
        longest: MAX_TIME
    }
    idem_sql::max_connections_methods! {}

    /// Sets the schema of the tables, instead of the `search_path`: 1 to 63 characters, with the
    /// rules of table names. `migrate` creates it if it is missing.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) for any other name.
    pub fn with_schema(mut self, schema: impl Into<String>) -> Result<Self> {
        self.schema = Some(checked_name("schema", schema, MAX_SCHEMA_BYTES)?);
        Ok(self)
    }

    /// Sets how statements are sent.
    #[must_use]
    pub fn with_statement_mode(mut self, mode: StatementMode) -> Self {
        self.statements = mode;
        self
    }

    /// Sets whether the server notifies waiting runs: see
    /// [`PostgresNotifier`](crate::PostgresNotifier).
    #[must_use]
    pub fn with_notifications(mut self, notifications: Notifications) -> Self {
        self.notifications = notifications;
        self
    }

    /// Sets when an answer is returned that rests on an earlier commit. Default:
    /// [`Replays::Committed`]. Without synchronous standbys the two promise the same.
    #[must_use]
    pub fn with_replays(mut self, replays: Replays) -> Self {
        self.replays = replays;
        self
    }

    /// Returns the schema, if one is set.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// Returns how statements are sent.
    #[must_use]
    pub fn statement_mode(&self) -> StatementMode {
        self.statements
    }

    /// Returns whether such an answer waits for the synchronous standbys.
    pub(crate) fn waits_for_standbys(&self) -> bool {
        self.replays == Replays::Replicated
    }

    pub(crate) fn notifies(&self) -> bool {
        self.notifications == Notifications::Changes
    }

    /// Returns the table's name, quoted, with the schema if one is set.
    pub(crate) fn qualified_table(&self) -> String {
        self.qualified(&self.table)
    }

    /// Returns the same for the table of watermarks.
    pub(crate) fn qualified_marks(&self) -> String {
        self.qualified(&format!("{}_watermarks", self.table))
    }

    /// Returns the channel of the table's notifications, by its name as it is configured. A hash,
    /// because schema and table may be longer together than a channel's name, which has 63 bytes at
    /// most.
    pub(crate) fn channel(&self) -> String {
        let digest = Fingerprint::raw(self.qualified_table()).to_string();
        let digits = digest.rsplit(':').next().unwrap_or_default();
        format!("idem_{}", digits.chars().take(32).collect::<String>())
    }

    fn qualified(&self, table: &str) -> String {
        match &self.schema {
            Some(schema) => format!("\"{schema}\".\"{table}\""),
            None => format!("\"{table}\""),
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
    fn the_maximum_timeout_can_be_added_to_now() {
        let config = Config::new().with_timeout(Duration::MAX);
        assert_eq!(config.timeout(), MAX_TIME);
        let _later = std::time::Instant::now() + config.timeout();
    }

    #[test]
    fn a_channel_is_a_tables_own_and_short_enough() {
        let named = |schema: &str, table: &str| {
            let config = Config::new().with_schema(schema).unwrap();
            config.with_table(table).unwrap().channel()
        };
        let long = named(&"s".repeat(63), &"t".repeat(50));
        assert_eq!(long.len(), 37);
        assert!(
            long.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        );
        assert_eq!(named("a", "b"), named("a", "b"));
        for other in [named("a", "c"), named("b", "b"), Config::new().channel()] {
            assert_ne!(named("a", "b"), other);
        }
    }

    #[test]
    fn names_are_validated_and_quoted() {
        let config = Config::new()
            .with_schema("Billing")
            .and_then(|config| config.with_table("idem_2"))
            .unwrap();
        assert_eq!(config.qualified_table(), "\"Billing\".\"idem_2\"");
        assert_eq!(
            config.qualified_marks(),
            "\"Billing\".\"idem_2_watermarks\""
        );
        assert!(Config::new().with_table("x".repeat(51)).is_err());
        assert!(Config::new().with_schema("x".repeat(63)).is_ok());
        assert!(Config::new().with_schema("x; DROP TABLE y").is_err());
    }
}
