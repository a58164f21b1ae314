//! [`Backend`]: a measured store, and its baseline.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{CallerTransaction, Harness, Promise};
use idem_core::{BoxError, ClaimOutcome, ClaimRequest};

/// A backend of the conformance suite, and the bare statements beside it.
#[derive(Clone)]
pub struct Backend {
    pub(crate) harness: Arc<dyn Harness>,
    baseline: Option<Arc<dyn Baseline>>,
}

impl Backend {
    /// Creates a backend without a baseline.
    pub fn new(harness: impl Harness) -> Self {
        Self {
            harness: Arc::new(harness),
            baseline: None,
        }
    }

    /// Compares the backend with bare statements.
    #[must_use]
    pub fn with_baseline(mut self, baseline: impl Baseline) -> Self {
        self.baseline = Some(Arc::new(baseline));
        self
    }

    /// Returns its name in reports, such as `postgres`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.harness.name()
    }

    /// Returns the bare statements, if there are any.
    pub(crate) fn baseline(&self) -> Option<&dyn Baseline> {
        self.baseline.as_deref()
    }

    /// Returns how many rows the baseline can insert in reasonable time.
    pub(crate) fn most_rows(&self) -> u64 {
        self.baseline().map_or(0, Baseline::most_rows)
    }

    /// Lets the server insert `rows` rows into the store's table.
    pub(crate) async fn fill(
        &self,
        namespace: &str,
        rows: u64,
        what: Rows,
    ) -> Result<(), BoxError> {
        let baseline = self.baseline().ok_or("the table cannot be filled")?;
        baseline.fill(namespace, rows, what).await
    }

    /// Begins to load rows in the server's own way; `None` if it has none.
    pub(crate) async fn load(&self, namespace: &str) -> Result<Option<Box<dyn Load>>, BoxError> {
        match self.baseline() {
            Some(baseline) => baseline.load(namespace).await,
            None => Ok(None),
        }
    }

    /// Creates a fresh namespace, with the table of the bare statements.
    pub(crate) async fn create(&self) -> Result<String, BoxError> {
        let namespace = self.harness.create().await?;
        if let Some(baseline) = self.baseline() {
            baseline.create(&namespace).await?;
        }
        Ok(namespace)
    }

    /// Claims the key in a caller's transaction, which stays open; `None` if nothing locks a key
    /// alone.
    pub(crate) async fn lock(
        &self,
        namespace: &str,
        request: &ClaimRequest,
    ) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        if !self.harness.profile().promises(Promise::RowLocks) {
            return Ok(None);
        }
        let begun = self.harness.begin(namespace).await?;
        let mut transaction = begun.ok_or("there are no transactions")?;
        match transaction.claim(request).await? {
            ClaimOutcome::Acquired(_) => Ok(Some(transaction)),
            other => Err(format!("the claim to hold was answered {}", other.name()).into()),
        }
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Backend").field(&self.name()).finish()
    }
}

/// The bare statements beside a store.
///
/// They are those that one would write by hand, on a table of `(id PRIMARY KEY, response)`, through
/// the store's driver, in the store's namespace. They keep no law: the first insert wins, nothing
/// expires, and no holder is fenced off.
#[async_trait]
pub trait Baseline: Send + Sync + 'static {
    /// Creates the table in a new namespace. Default: there is no table.
    async fn create(&self, _namespace: &str) -> Result<(), BoxError> {
        Ok(())
    }

    /// Returns how bare statements share connections at their best.
    fn share(&self) -> Share;

    /// Opens bare statements on a connection that the caller keeps, shared as
    /// [`share`](Self::share) says.
    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError>;

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
