//! The configuration of a store.

use std::time::Duration;

use idem_core::Limits;

/// The configuration of a store: names and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    table: String,
    limits: Limits,
    timeout: Duration,
    batching: bool,
}

/// The longest time-out: clocks and SQLite's milliseconds cannot add longer ones up.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

impl Config {
    /// Creates the default configuration: the tables `idem_records` and `idem_records_watermarks`,
    /// default limits, 10 s for an operation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: "idem_records".to_owned(),
            limits: Limits::DEFAULT,
            timeout: Duration::from_secs(10),
            batching: true,
        }
    }

    idem_sql::config_methods! {
        table: "",
        limits: "SQLite holds at most 1 GB in a value.",
        timeout: "The wait for the write lock counts, too. More than a day counts as a day.",
        batching: "So does everybody on a caller's pool, and while somebody holds the write lock.",
        longest: LONGEST_TIMEOUT
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_maximum_timeout_panics_nowhere() {
        use idem_core::{ClaimRequest, Error, Fingerprint, IdempotencyStore, Key};

        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/idem.db", folder.path().display());
        let config = Config::new().with_timeout(Duration::MAX);
        let store = crate::SqliteStore::connect(&url, config).await.unwrap();
        store.migrate().await.unwrap();
        let key = Key::new("tenant", "pay", "one").unwrap();
        let request = ClaimRequest::new(key, Fingerprint::raw("1"));
        assert_eq!(store.claim(&request).await.unwrap().name(), "acquired");
        let transactions = crate::Transactions::new(&store);
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
        assert!(Config::new().with_table("x".repeat(51)).is_err());
    }
}
