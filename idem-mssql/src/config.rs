//! The configuration of a store.

use std::time::Duration;

use idem_core::{Limits, Result};
use idem_sql::config::{MAX_TIME, checked_name};

/// The configuration of a store: names, limits, and how keys are claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    schema: Option<String>,
    table: String,
    limits: Limits,
    method: ClaimMethod,
    timeout: Duration,
    batching: bool,
}

/// The statement that decides a claim. Each is right on every server that understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimMethod {
    /// The statement that suits the server, by the product that it names:
    /// [`Merge`](Self::Merge) on SQL Server and Azure SQL,
    /// [`InsertWhereNotExists`](Self::InsertWhereNotExists) on all other servers.
    #[default]
    Auto,
    /// `MERGE … WITH (HOLDLOCK)`, which locks the range of the key. In a caller's transaction, and
    /// where a range is not free within a short lock time-out or was part of a deadlock,
    /// `MERGE … WITH (UPDLOCK, ROWLOCK)`.
    Merge,
    /// `MERGE … WITH (UPDLOCK, ROWLOCK)` always. Claims that race for a fresh key repeat after 2627;
    /// none waits for its neighbour. For tables of which transactions hold many keys open.
    MergeWithRowLocks,
    /// `INSERT … WHERE NOT EXISTS` and a guarded `UPDATE`, for servers that speak T-SQL without
    /// MERGE, such as Babelfish for Aurora PostgreSQL.
    InsertWhereNotExists,
}

/// Babelfish cuts names at 63 bytes; SQL Server itself allows 128 characters.
const MAX_SCHEMA_BYTES: usize = 63;

impl Config {
    /// Creates the default configuration: the tables `idem_records` and `idem_records_watermarks`
    /// in the user's default schema (usually `dbo`); default limits; the claim method by server;
    /// 10 s for an operation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            schema: None,
            table: "idem_records".to_owned(),
            limits: Limits::DEFAULT,
            method: ClaimMethod::default(),
            timeout: Duration::from_secs(10),
            batching: true,
        }
    }

    idem_sql::config_methods! {
        table: "Whether capitals count is up to the database's collation.",
        limits: "SQL Server holds at most 2 GB in a field.",
        timeout: "More than a year counts as a year. For a lock that another transaction holds, a statement waits \
                  [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT) at most.",
        batching: "",
        longest: MAX_TIME
    }

    /// Sets the schema of the tables, instead of the user's default: 1 to 63 characters, with the
    /// rules of table names. `migrate` creates it if it is missing.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) for any other name.
    pub fn with_schema(mut self, schema: impl Into<String>) -> Result<Self> {
        self.schema = Some(checked_name("schema", schema, MAX_SCHEMA_BYTES)?);
        Ok(self)
    }

    /// Sets how keys are claimed.
    #[must_use]
    pub fn with_claim_method(mut self, method: ClaimMethod) -> Self {
        self.method = method;
        self
    }

    /// Returns the schema, if one is set.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// Returns how keys are claimed.
    #[must_use]
    pub fn claim_method(&self) -> ClaimMethod {
        self.method
    }

    /// Returns the table's name, quoted, with the schema if one is set.
    pub(crate) fn qualified_table(&self) -> String {
        self.qualified("")
    }

    /// Returns the same for the table of watermarks.
    pub(crate) fn qualified_marks(&self) -> String {
        self.qualified("_watermarks")
    }

    /// Returns the same for the table that holds the schema's version.
    pub(crate) fn qualified_version_table(&self) -> String {
        self.qualified("_version")
    }

    fn qualified(&self, suffix: &str) -> String {
        match &self.schema {
            Some(schema) => format!("[{schema}].[{}{suffix}]", self.table),
            None => format!("[{}{suffix}]", self.table),
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
    fn a_time_out_has_an_end() {
        let config = Config::new().with_timeout(Duration::MAX);
        assert_eq!(config.timeout(), MAX_TIME);
        let later = std::time::Instant::now().checked_add(config.timeout());
        assert!(later.is_some());
    }

    #[test]
    fn names_are_validated_and_quoted() {
        let config = Config::new()
            .with_schema("Billing")
            .and_then(|config| config.with_table("idem_2"))
            .unwrap();
        assert_eq!(config.qualified_table(), "[Billing].[idem_2]");
        assert_eq!(config.qualified_marks(), "[Billing].[idem_2_watermarks]");
        for name in [
            "",
            "1a",
            "a-b",
            "a]b",
            "a'b",
            "a.b",
            "é",
            "a b",
            &"x".repeat(51),
        ] {
            assert!(Config::new().with_table(name).is_err(), "{name}");
        }
        assert!(Config::new().with_schema("x".repeat(63)).is_ok());
        assert!(Config::new().with_schema("x; DROP TABLE y").is_err());
    }
}
