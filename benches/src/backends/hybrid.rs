//! Redis in front of PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Harness, Product, Profile};
use idem_core::{BatchStore, BoxError, IdempotencyStore};
use idem_hybrid::{HybridStore, RedisCache};

use crate::Subject;

/// Nobody listens there.
const NOWHERE: &str = "redis://127.0.0.1:1";

/// The database's namespaces, with a cache in front.
#[derive(Debug, Clone)]
pub struct Hybrid {
    database: Subject,
    /// Of the cache.
    url: String,
}

/// A store with its cache's metrics.
pub type Store = HybridStore<RedisCache, Arc<dyn BatchStore>>;

impl Hybrid {
    /// A cache at this URL in front of this database.
    #[must_use]
    pub fn new(database: Subject, url: String) -> Self {
        Self { database, url }
    }

    /// The same with a cache that is down.
    #[must_use]
    pub fn down(&self) -> Self {
        Self::new(self.database.clone(), NOWHERE.to_owned())
    }

    /// The database alone.
    #[must_use]
    pub fn database(&self) -> &Subject {
        &self.database
    }

    /// A new handle.
    ///
    /// # Errors
    ///
    /// The stores'.
    pub async fn store(&self, namespace: &str) -> Result<Arc<Store>, BoxError> {
        let config = idem_hybrid::idem_redis::Config::new();
        let cache = RedisCache::new(&self.url, namespace, &config)?;
        let database = self.database.harness().open_batch(namespace).await?;
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
        self.database.harness().profile()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        self.database.harness().product().await
    }

    async fn create(&self) -> Result<String, BoxError> {
        self.database.harness().create().await
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(self.store(namespace).await?)
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(self.store(namespace).await?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.database.harness().destroy(namespace).await
    }
}
