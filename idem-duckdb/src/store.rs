//! [`DuckDbStore`].

use std::path::Path;
use std::sync::Arc;

use idem_core::Result;
use idem_core::wrappers::Batched;

use crate::config::Config;
use crate::operations::Operations;
use crate::pool::DuckDbPool;
use crate::session::Session;

pub(crate) const BACKEND: &str = "duckdb";

/// The store in a file of DuckDB.
///
/// A clone shares the connections. The store creates the file by itself, but no tables: see
/// [`migrate`](Self::migrate).
#[derive(Clone)]
pub struct DuckDbStore {
    pub(crate) pool: DuckDbPool,
    pub(crate) operations: Arc<Operations>,
    /// This store without batching, behind the batches; `None` where [`Config::with_batching`]
    /// turns batching off.
    batched: Option<Arc<Batched<Self>>>,
}

impl DuckDbStore {
    /// Opens the file and creates a store with connections of its own: see [`DuckDbPool::open`].
    ///
    /// # Errors
    ///
    /// As for [`DuckDbPool::open`].
    pub async fn connect(path: impl AsRef<Path>, config: Config) -> Result<Self> {
        let pool = DuckDbPool::open(path, &config).await?;
        Ok(Self::with_config(pool, config))
    }

    /// Creates a store on a pool, with the default [`Config`].
    #[must_use]
    pub fn new(pool: DuckDbPool) -> Self {
        Self::with_config(pool, Config::new())
    }

    /// Creates a store on a pool, which has its own limit of connections.
    #[must_use]
    pub fn with_config(pool: DuckDbPool, config: Config) -> Self {
        let operations = Arc::new(Operations::new(config, &pool.database()));
        let store = Self {
            pool,
            operations,
            batched: None,
        };
        store.with_batches()
    }

    /// Waits for the operations that are under way, and for callers' transactions, and closes the
    /// connections of the pool. The last pool of a file closes the file, which writes the log into
    /// it.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Returns the pool, for callers' transactions. Closing it closes the store.
    #[must_use]
    pub fn pool(&self) -> &DuckDbPool {
        &self.pool
    }

    fn batched(&self) -> Option<&Batched<Self>> {
        self.batched.as_deref()
    }

    pub(crate) fn session(&self) -> Session<'_> {
        Session::Store(&self.pool, &self.operations.config)
    }
}

idem_sql::store!(DuckDbStore, BACKEND);
