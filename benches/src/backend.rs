//! [`Backend`]: a measured store, and its baseline.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::Harness;
use idem_core::BoxError;

/// A backend of the conformance suite, and the bare statements beside it.
#[derive(Clone)]
pub struct Backend {
    pub(crate) harness: Arc<dyn Harness>,
    pub(crate) baseline: Option<Arc<dyn Baseline>>,
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

    /// Returns how many rows the baseline can insert in reasonable time.
    pub(crate) fn most_rows(&self) -> u64 {
        let baseline = self.baseline.as_ref();
        baseline.map_or(0, |baseline| baseline.most_rows())
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

    /// Returns how many connections bare statements use at their best: one for each of as many
    /// tasks. More callers share the tasks, because more connections would only compete. Default:
    /// one connection for all callers.
    fn most_connections(&self) -> Option<usize> {
        None
    }

    /// Opens bare statements on a connection, shared as
    /// [`most_connections`](Self::most_connections) says.
    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError>;

    /// Opens bare statements through the driver's pool with the driver's defaults, for all callers.
    /// Default: the driver has no pool.
    async fn pooled(&self, _namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        Ok(None)
    }

    /// Opens services that take each payment once, in a transaction with its row: by `run_in`, by
    /// hand, and without any record, each on a pool of its own. Default: there are none.
    async fn payments(&self, _namespace: &str) -> Result<Vec<(&'static str, PayBox)>, BoxError> {
        Ok(Vec::new())
    }

    /// Returns how many rows [`fill`](Self::fill) inserts in reasonable time. Default: it inserts
    /// none.
    fn most_rows(&self) -> u64 {
        0
    }

    /// Lets the server insert `rows` rows of completed keys into the store's table. Their retention
    /// ends in so many microseconds, or ended before now.
    async fn fill(&self, _namespace: &str, _rows: u64, _ends_in: i64) -> Result<(), BoxError> {
        Err("the table cannot be filled".into())
    }

    /// Begins to load rows like those of fresh claims into the store's table, by the server's own
    /// way. Default: it has none.
    async fn load(&self, _namespace: &str) -> Result<Option<Box<dyn Load>>, BoxError> {
        Ok(None)
    }
}

/// A service that takes payments.
#[async_trait]
pub trait Pay: Send + Sync + 'static {
    /// Takes the payment with this id, whose key is fresh.
    async fn pay(&self, id: &str) -> Result<(), BoxError>;
}

/// A shared service.
pub type PayBox = Arc<dyn Pay>;

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
