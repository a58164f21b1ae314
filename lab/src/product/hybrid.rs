//! [`Hybrid`].

use async_trait::async_trait;
use idem_core::BoxError;
use idem_hybrid::{HybridStore, RedisCache};
use idem_postgres::PostgresStore;
use idem_stores::{Adapter, Postgres, Redis};

/// PostgreSQL with Redis in front.
#[derive(Debug, Clone)]
pub struct Hybrid {
    database: Postgres,
    cache: Redis,
}

impl Hybrid {
    /// Its scheme in [`Cell::parse`](crate::cell::Cell::parse), before both URLs.
    pub const SCHEME: &str = "hybrid";

    /// Reads the URL of the database, `+`, and the URL of the cache.
    ///
    /// # Errors
    ///
    /// There is no `+`.
    pub fn parse(text: &str) -> Result<Self, BoxError> {
        let urls = text.split_once('+');
        let (database, cache) = urls.ok_or("a hybrid is `hybrid:postgres://…+redis://…`")?;
        Ok(Self {
            database: Postgres::new(database),
            cache: Redis::new(cache),
        })
    }
}

#[async_trait]
impl Adapter for Hybrid {
    type Store = HybridStore<RedisCache, PostgresStore>;

    async fn product(&self) -> Result<(String, String), BoxError> {
        let (database, version) = self.database.product().await?;
        let (cache, of_cache) = self.cache.product().await?;
        Ok((format!("{database} {version} behind {cache}"), of_cache))
    }

    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        self.database.create(namespace).await
    }

    async fn store(&self, namespace: &str) -> Result<Self::Store, BoxError> {
        let database = self.database.store(namespace).await?;
        Ok(HybridStore::new(self.cache.cache(namespace)?, database))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.database.destroy(namespace).await
    }
}
