//! The configuration of a store.

use std::time::Duration;

use idem_core::Limits;
use idem_sql::config::MAX_TIME;

/// The configuration of a store: names and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    table: String,
    limits: Limits,
    timeout: Duration,
    retry_timeout: Duration,
    max_connections: u32,
    batching: bool,
}

impl Config {
    /// Creates the default configuration: the tables `idem_records` and `idem_records_watermarks`,
    /// default limits, 10 s for an operation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: "idem_records".to_owned(),
            limits: Limits::DEFAULT,
            timeout: Duration::from_secs(10),
            retry_timeout: Duration::from_millis(500),
            max_connections: 10,
            batching: true,
        }
    }

    idem_sql::config_methods! {
        table: "The tables are in the schema `main` of the connection's database.",
        limits: "DuckDB holds at most 4 GB in a value.",
        timeout: "More than a year counts as a year.",
        batching: "They also share a commit to disk then.",
        longest: MAX_TIME
    }

    idem_sql::max_connections_methods!();

    /// Sets how long the store repeats a statement that conflicts with an open transaction, or with
    /// one that committed meanwhile, before it returns `Contention`. DuckDB has no locks to wait
    /// for: the later of two writers of a row gets an error. Default: 500 ms; more than a year
    /// counts as a year.
    #[must_use]
    pub fn with_retry_timeout(mut self, retry_timeout: Duration) -> Self {
        self.retry_timeout = retry_timeout.min(MAX_TIME);
        self
    }

    /// Returns how long the store repeats a statement that conflicts.
    #[must_use]
    pub fn retry_timeout(&self) -> Duration {
        self.retry_timeout
    }

    /// Returns the table's name, quoted.
    pub(crate) fn quoted_table(&self) -> String {
        format!("\"{}\"", self.table)
    }

    /// Returns the same for the table of watermarks.
    pub(crate) fn quoted_marks(&self) -> String {
        format!("\"{}_watermarks\"", self.table)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}
