//! [`Filler`]: rows by the million.

use async_trait::async_trait;
use idem_core::BoxError;

/// What rows are put into a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Completed keys that are replayed for a day.
    Completed,
    /// Completed keys whose retention has ended.
    Expired,
}

/// An hour, in microseconds.
const HOUR: i64 = 3_600_000_000;

impl Rows {
    /// When the retention of such a row ends, counted from now.
    #[must_use]
    pub fn ends_in_micros(self) -> i64 {
        match self {
            Self::Completed => 24 * HOUR,
            Self::Expired => -HOUR,
        }
    }
}

/// Puts rows into the store's own table, made by the server itself.
#[async_trait]
pub trait Filler: Send + Sync + 'static {
    /// Puts so many rows into the store's table in this namespace.
    ///
    /// # Errors
    ///
    /// The driver's.
    async fn fill(&self, namespace: &str, rows: u64, what: Rows) -> Result<(), BoxError>;

    /// How many rows it makes in reasonable time.
    fn most(&self) -> u64;
}
