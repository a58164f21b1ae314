//! A cache in front of a database: records and ledger in the database, replays from Redis.
//!
//! Claims and answers are the database's, in its transaction; the cache answers completed requests.
//! The transaction does not notify the cache, and need not: the first duplicate finds the record in
//! the database and stores it in the cache.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore, Response};
use idem_hybrid::{HybridStore, RedisCache};
use idem_stores::Adapter;

use super::{Backend, Entry, Location, Settlement, redis};
use crate::storm::stop::{OrStop, Stop};

#[derive(Debug)]
pub(super) struct Hybrid {
    database: Box<dyn Backend>,
    store: HybridStore<RedisCache, Arc<dyn IdempotencyStore>>,
    server: idem_stores::Redis,
    namespace: String,
}

impl Hybrid {
    /// Opens the cache at these URLs (several are nodes of a cluster) in front of the database.
    ///
    /// The namespace of the cache names the database's records, which belong to this run alone.
    pub(super) async fn open(
        urls: &str,
        location: &Location,
        database: Box<dyn Backend>,
    ) -> Result<Self, Stop> {
        // A hybrid works without its cache; a storm has to show both.
        let (server, _) = redis::connect(urls).await?;
        let cache = server.cache(&location.namespace).or_stop("--store")?;
        Ok(Self {
            store: HybridStore::new(cache, database.store()),
            database,
            server,
            namespace: location.namespace.clone(),
        })
    }
}

#[async_trait]
impl Backend for Hybrid {
    fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::new(self.store.clone())
    }

    async fn product(&self) -> Result<String, BoxError> {
        let database = self.database.product().await?;
        Ok(format!(
            "{database} behind {}",
            redis::product(&self.server).await?
        ))
    }

    async fn create(&self) -> Result<(), BoxError> {
        self.database.create().await
    }

    async fn remove(&self) -> Result<(), BoxError> {
        self.database.remove().await?;
        self.server.destroy(&self.namespace).await
    }

    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError> {
        self.database.settle(settlement).await
    }

    async fn append(&self, entry: &Entry) -> Result<(), BoxError> {
        self.database.append(entry).await
    }

    async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
        self.database.ledger().await
    }
}
