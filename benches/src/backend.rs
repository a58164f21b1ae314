//! [`Backend`]: a measured store, and its baselines.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::Harness;
use idem_core::{BatchStore, BoxError, ClaimOutcome, ClaimRequest, IdempotencyStore};

/// A backend. Its baselines are optional.
///
/// The bare statements are those that one would write by hand, on a table of `(id PRIMARY KEY,
/// response)`, through the store's driver, in the store's namespace. They keep no law: the first
/// insert wins, nothing expires, and no holder is fenced off.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Returns its name in reports, such as `postgres`.
    fn name(&self) -> &str;

    /// Creates a fresh namespace, with the table of the bare statements.
    async fn create(&self) -> Result<String, BoxError>;

    /// Opens the namespace, with its own connections.
    async fn open(&self, namespace: &str) -> Result<Handle, BoxError>;

    /// Removes the namespace.
    async fn destroy(&self, namespace: &str) -> Result<(), BoxError>;

    /// Returns how bare statements share connections at their best. Default: there are no bare
    /// statements.
    fn share(&self) -> Option<Share> {
        None
    }

    /// Opens bare statements on a connection that the caller keeps, shared as
    /// [`share`](Self::share) says.
    async fn held(&self, _namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        Err("there are no bare statements".into())
    }

    /// Opens bare statements through the driver's pool with the driver's defaults, for all callers.
    /// Default: the driver has no pool.
    async fn pooled(&self, _namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        Ok(None)
    }

    /// Returns how many rows [`fill`](Self::fill) inserts in reasonable time. Default: it inserts
    /// none.
    fn most_rows(&self) -> u64 {
        0
    }

    /// Lets the server insert `rows` rows into the store's table.
    async fn fill(&self, _namespace: &str, _rows: u64, _what: Rows) -> Result<(), BoxError> {
        Err("the table cannot be filled".into())
    }

    /// Begins to load rows like those of fresh claims into the store's table, by the server's own
    /// way. Default: it has none.
    async fn load(&self, _namespace: &str) -> Result<Option<Box<dyn Load>>, BoxError> {
        Ok(None)
    }

    /// Claims the key in a caller's transaction, which stays open. Default: there are no
    /// transactions.
    async fn lock(
        &self,
        _namespace: &str,
        _request: &ClaimRequest,
    ) -> Result<Option<OpenTransaction>, BoxError> {
        Ok(None)
    }
}

/// An opened namespace.
#[derive(Debug, Clone)]
pub enum Handle {
    /// A store with batches.
    Batch(Arc<dyn BatchStore>),
    /// A store without batches.
    Plain(Arc<dyn IdempotencyStore>),
}

impl Handle {
    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn IdempotencyStore> {
        match self {
            Self::Batch(store) => Arc::clone(store) as _,
            Self::Plain(store) => Arc::clone(store),
        }
    }
}

/// How callers share connections at their best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// One connection for each of at most this many tasks. More callers share the tasks, because
    /// more connections would only compete.
    Each(usize),
    /// One connection for all.
    One,
}

/// The bare statements. Each fails if it does not meet exactly one row.
#[async_trait]
pub trait Statements: Send + Sync + 'static {
    /// `INSERT … ON CONFLICT DO NOTHING`, without a response.
    async fn insert(&self, id: &str) -> Result<(), BoxError>;

    /// `UPDATE … SET response = … WHERE id = …`.
    async fn update(&self, id: &str, response: &[u8]) -> Result<(), BoxError>;

    /// `SELECT response … WHERE id = …`; returns its length.
    async fn select(&self, id: &str) -> Result<usize, BoxError>;
}

/// A bulk load on a connection of its own. Dropping it drops its rows.
#[async_trait]
pub trait Load: Send {
    /// Sends a row for each id.
    async fn rows(&mut self, ids: &[String]) -> Result<(), BoxError>;

    /// Commits. Returns how many rows the server has stored.
    async fn commit(self: Box<Self>) -> Result<u64, BoxError>;
}

/// Fails if the number of rows is not one.
pub(crate) fn one_row(rows: u64) -> Result<(), BoxError> {
    match rows {
        1 => Ok(()),
        rows => Err(format!("{rows} rows instead of one").into()),
    }
}

/// The rows that fill a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Completed keys that are replayed for a day.
    Completed,
    /// Completed keys whose retention has ended.
    Expired,
}

impl Rows {
    /// Returns when the retention of such a row ends, in microseconds from now.
    #[must_use]
    pub fn ends_in_micros(self) -> i64 {
        const HOUR: i64 = 3_600_000_000;
        match self {
            Self::Completed => 24 * HOUR,
            Self::Expired => -HOUR,
        }
    }
}

/// An open transaction. Dropping it rolls it back.
pub type OpenTransaction = Box<dyn Send>;

/// Returns the transaction, in which the claim has to be acquired.
pub(crate) fn holding(
    transaction: impl Send + 'static,
    outcome: &ClaimOutcome,
) -> Result<Option<OpenTransaction>, BoxError> {
    match outcome {
        ClaimOutcome::Acquired(_) => Ok(Some(Box::new(transaction))),
        other => Err(format!("the claim to hold was answered {}", other.name()).into()),
    }
}

/// The backend of a conformance suite's harness, without baselines.
#[derive(Debug, Clone)]
pub struct Suite<H>(pub H);

#[async_trait]
impl<H: Harness> Backend for Suite<H> {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn create(&self) -> Result<String, BoxError> {
        self.0.create().await
    }

    async fn open(&self, namespace: &str) -> Result<Handle, BoxError> {
        match self.0.open_batch(namespace).await? {
            Some(store) => Ok(Handle::Batch(store)),
            None => Ok(Handle::Plain(self.0.open(namespace).await?)),
        }
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.0.destroy(namespace).await
    }
}
