//! Redis in front of PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Harness, Product, Profile};
use idem_core::{BatchStore, BoxError, IdempotencyStore};
use idem_hybrid::{HybridStore, RedisCache};

use crate::Backend;

/// An address without a listener.
const NOWHERE: &str = "redis://127.0.0.1:1";

/// The database's namespaces, with a cache in front.
#[derive(Clone)]
pub(crate) struct Hybrid {
    database: Backend,
    /// The URL of the cache.
    url: String,
}

/// A store with its cache's metrics.
type Store = HybridStore<RedisCache, Arc<dyn BatchStore>>;

impl Hybrid {
    /// Creates a cache at this URL in front of this database.
    pub(super) fn new(database: Backend, url: String) -> Self {
        Self { database, url }
    }

    /// Returns the same with a cache that is down.
    pub(crate) fn down(&self) -> Self {
        Self::new(self.database.clone(), NOWHERE.to_owned())
    }

    /// Returns the database alone.
    pub(crate) fn database(&self) -> &Backend {
        &self.database
    }

    /// Opens a new handle.
    pub(crate) async fn store(&self, namespace: &str) -> Result<Arc<Store>, BoxError> {
        let config = idem_hybrid::idem_redis::Config::new();
        let cache = RedisCache::new(&self.url, namespace, &config)?;
        let database = self.database.harness.open_batch(namespace).await?;
        let database = database.ok_or("the database has no batches")?;
        Ok(Arc::new(HybridStore::new(cache, database)))
    }
}

#[async_trait]
impl Harness for Hybrid {
    fn name(&self) -> &str {
        "hybrid"
    }

    fn profile(&self) -> Profile {
        self.database.harness.profile()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        self.database.harness.product().await
    }

    async fn create(&self) -> Result<String, BoxError> {
        self.database.harness.create().await
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(self.store(namespace).await?)
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.database.harness.destroy(namespace).await
    }
}
