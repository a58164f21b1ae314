//! How a store is set up.

use std::time::Duration;

use idem_core::{Error, Limits, Result};

/// Names and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    table: String,
    limits: Limits,
    timeout: Duration,
    batching: bool,
}

/// Most bytes of a table's name.
const MAX_TABLE_BYTES: usize = 50;

/// Longer time-outs than clocks and SQLite's milliseconds can add up are none.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

impl Config {
    /// The tables `idem_records` and `idem_records_watermarks`, default limits, 10 s for an operation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: "idem_records".to_owned(),
            limits: Limits::DEFAULT,
            timeout: Duration::from_secs(10),
            batching: true,
        }
    }

    /// Another name for the table: 1 to 50 ASCII letters, digits and underscores, no digit first. Watermarks are in a
    /// table of their own, whose name has `_watermarks` at the end.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when it is no such name.
    pub fn with_table(mut self, table: impl Into<String>) -> Result<Self> {
        let table = table.into();
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let valid = !table.is_empty()
            && table.len() <= MAX_TABLE_BYTES
            && table.bytes().all(word)
            && !table.starts_with(|first: char| first.is_ascii_digit());
        if !valid {
            return Err(Error::invalid_input(format!(
                "the name of the table has to be 1 to {MAX_TABLE_BYTES} ASCII letters, digits and \
                 underscores, and not start with a digit"
            )));
        }
        self.table = table;
        Ok(self)
    }

    /// Other limits. SQLite holds at most 1 GB in a value.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether concurrent claims and completions of this process share statements, as behind
    /// [`Batched`](idem_core::wrappers::Batched); on by default. A caller who is alone asks at once either way, and so
    /// does everybody on a caller's pool, and while somebody holds the write lock.
    #[must_use]
    pub fn with_batching(mut self, batching: bool) -> Self {
        self.batching = batching;
        self
    }

    /// How long an operation may take, waiting for a connection and for the write lock included, before it is
    /// answered with `Unavailable`. What was begun may still take effect then. At most a day.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(LONGEST_TIMEOUT);
        self
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

    /// The table's name, quoted.
    pub(crate) fn quoted_table(&self) -> String {
        format!("\"{}\"", self.table)
    }

    /// The name of the table of watermarks.
    pub(crate) fn marks(&self) -> String {
        format!("{}_watermarks", self.table)
    }

    /// The same, quoted.
    pub(crate) fn quoted_marks(&self) -> String {
        format!("\"{}\"", self.marks())
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

    #[tokio::test]
    async fn the_longest_timeout_panics_nowhere() {
        use idem_core::{ClaimRequest, Fingerprint, IdempotencyStore, Key};

        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/idem.db", folder.path().display());
        let config = Config::new().with_timeout(Duration::MAX);
        let store = crate::SqliteStore::connect(&url, config).await.unwrap();
        store.migrate().await.unwrap();
        let key = Key::new("tenant", "pay", "one").unwrap();
        let request = ClaimRequest::new(key, Fingerprint::raw("1"));
        assert_eq!(store.claim(&request).await.unwrap().name(), "acquired");
        let transactions = crate::Transactions::new(store.pool().clone());
        let mut attempts = transactions.with_limit(Duration::MAX).attempts();
        let transaction = attempts.begin().await.unwrap();
        let done = attempts.finish(transaction, Ok::<_, Error>(7)).await;
        assert_eq!(done.unwrap().unwrap(), 7);
    }

    #[test]
    fn names_are_validated_and_quoted() {
        let config = Config::new().with_table("Dedup_2").unwrap();
        assert_eq!(config.quoted_table(), "\"Dedup_2\"");
        assert_eq!(config.quoted_marks(), "\"Dedup_2_watermarks\"");
        for name in ["", "1a", "a-b", "a\"b", "a.b", "é", "a b", &"x".repeat(51)] {
            assert!(Config::new().with_table(name).is_err(), "{name}");
        }
    }
}
