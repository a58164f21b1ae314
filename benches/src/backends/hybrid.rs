//! Redis in front of PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BatchStore, BoxError};
use idem_hybrid::{HybridStore, RedisCache};

use crate::{Backend, Handle};

/// An address without a listener.
const NOWHERE: &str = "redis://127.0.0.1:1";

/// The database's namespaces, with a cache in front.
#[derive(Clone)]
pub(crate) struct Hybrid {
    database: Arc<dyn Backend>,
    /// The URL of the cache.
    url: String,
}

/// A store with its cache's metrics.
type Store = HybridStore<RedisCache, Arc<dyn BatchStore>>;

impl Hybrid {
    /// Creates a cache at this URL in front of this database.
    pub(super) fn new(database: Arc<dyn Backend>, url: String) -> Self {
        Self { database, url }
    }

    /// Returns the same with a cache that is down.
    pub(crate) fn down(&self) -> Self {
        Self::new(Arc::clone(&self.database), NOWHERE.to_owned())
    }

    /// Returns the database alone.
    pub(crate) fn database(&self) -> &Arc<dyn Backend> {
        &self.database
    }

    /// Opens a new handle.
    pub(crate) async fn store(&self, namespace: &str) -> Result<Arc<Store>, BoxError> {
        let config = idem_hybrid::idem_redis::Config::new();
        let cache = RedisCache::new(&self.url, namespace, &config)?;
        match self.database.open(namespace).await? {
            Handle::Batch(database) => Ok(Arc::new(HybridStore::new(cache, database))),
            Handle::Plain(_) => Err("the database has no batches".into()),
        }
    }
}

#[async_trait]
impl Backend for Hybrid {
    fn name(&self) -> &str {
        "hybrid"
    }

    async fn create(&self) -> Result<String, BoxError> {
        self.database.create().await
    }

    async fn open(&self, namespace: &str) -> Result<Handle, BoxError> {
        Ok(Handle::Batch(self.store(namespace).await?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.database.destroy(namespace).await
    }
}
