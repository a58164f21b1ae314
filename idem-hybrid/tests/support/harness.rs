//! [`HybridHarness`]: a database with a cache in some state in front.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use idem_conformance::{
    CallerTransaction, CaseError, CaseResult, Context, Harness, Missing, Product, Profile,
};
use idem_core::{BatchStore, BoxError, IdempotencyStore, Key, Result as StoreResult, async_trait};
use idem_hybrid::{Cache, CacheMetrics, HybridStore, LocalCache, RedisCache, Tiered};

use super::spoiled::{Spoil, Spoiled};
use super::unheard::Unheard;
use super::{Database, State, private, slow};

/// Between the database's namespace and the cache's URL in a locator.
const SEPARATOR: char = '|';

/// Nothing listens there.
const NOWHERE: &str = "redis://127.0.0.1:1";

/// One database and one state of the cache.
pub(crate) struct HybridHarness {
    name: String,
    database: Box<dyn Harness>,
    state: State,
    /// The in-process tiers by namespace: all handles of this process share one, as they would in a
    /// service.
    local: Mutex<HashMap<String, LocalCache>>,
}

/// `hybrid-postgres-killed`.
pub(crate) fn name(database: Database, state: State) -> String {
    format!("hybrid-{}-{}", database.name(), state.name())
}

/// A store that reports the results of its cache's calls.
#[async_trait]
pub(crate) trait Metered: BatchStore {
    fn metrics(&self) -> CacheMetrics;
    async fn settled(&self);
    async fn invalidate(&self, key: &Key) -> StoreResult<()>;
}

#[async_trait]
impl<C: Cache> Metered for HybridStore<C, Arc<dyn BatchStore>> {
    fn metrics(&self) -> CacheMetrics {
        HybridStore::metrics(self)
    }

    async fn settled(&self) {
        HybridStore::settled(self).await;
    }

    async fn invalidate(&self, key: &Key) -> StoreResult<()> {
        HybridStore::invalidate(self, key).await
    }
}

/// The harness that a case runs on.
pub(crate) fn harness(cx: &Context) -> CaseResult<HybridHarness> {
    let all = Database::ALL
        .into_iter()
        .flat_map(|database| State::ALL.map(|state| (database, state)));
    let mut named = all.filter(|(database, state)| name(*database, *state) == cx.harness().name());
    let (database, state) = named
        .next()
        .ok_or_else(|| CaseError::new("no such harness"))?;
    HybridHarness::of(database, state).map_err(|missing| CaseError::new(missing.to_string()))
}

fn split(namespace: &str) -> (&str, &str) {
    namespace.split_once(SEPARATOR).unwrap_or((namespace, ""))
}

impl HybridHarness {
    pub(crate) fn of(database: Database, state: State) -> Result<Self, Missing> {
        state.is_here()?;
        Ok(Self {
            name: name(database, state),
            database: database.target()?,
            state,
            local: Mutex::default(),
        })
    }

    /// Returns the URL of the cache for a new namespace.
    fn cache_url(&self) -> Result<String, BoxError> {
        let redis = || idem_servers::url_for("redis").ok_or("no Redis");
        Ok(match self.state {
            State::Local => String::new(),
            State::Down => NOWHERE.to_owned(),
            State::Slow => slow::url(&redis()?)?,
            State::Killed | State::Flushed | State::Evicting => private::url(self.state)?,
            State::Tiered | State::Healthy | State::Garbage | State::Mixed => redis()?,
        })
    }

    fn local(&self, namespace: &str) -> LocalCache {
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || LocalCache::new(16 << 20);
        local
            .entry(namespace.to_owned())
            .or_insert_with(made)
            .clone()
    }

    fn forget(&self, namespace: &str) {
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        local.remove(namespace);
    }

    fn redis(namespace: &str) -> StoreResult<RedisCache> {
        let (database, url) = split(namespace);
        // The last part of a path.
        let name = database.rsplit('/').next().unwrap_or(database);
        RedisCache::new(url, name, &idem_hybrid::idem_redis::Config::new())
    }

    /// The cache in front of this store.
    pub(crate) fn in_front(
        &self,
        namespace: &str,
        database: Arc<dyn BatchStore>,
    ) -> StoreResult<Arc<dyn Metered>> {
        let redis = || Self::redis(namespace);
        Ok(match self.state {
            State::Local => Arc::new(HybridStore::new(self.local(namespace), database)),
            State::Tiered => {
                let tiers = Tiered::new(self.local(namespace), redis()?);
                Arc::new(HybridStore::new(tiers, database))
            }
            State::Garbage => {
                let cache = Spoiled::new(redis()?, Spoil::Garbage);
                Arc::new(HybridStore::new(cache, database))
            }
            State::Mixed => {
                let cache = Spoiled::new(redis()?, Spoil::Mixed);
                Arc::new(HybridStore::new(cache, database))
            }
            State::Down | State::Killed | State::Slow => {
                Arc::new(HybridStore::new(Unheard(redis()?), database))
            }
            State::Healthy | State::Flushed | State::Evicting => {
                Arc::new(HybridStore::new(redis()?, database))
            }
        })
    }

    pub(crate) async fn metered(&self, namespace: &str) -> Result<Arc<dyn Metered>, BoxError> {
        let database = self.database.open_batch(split(namespace).0).await?;
        Ok(self.in_front(namespace, database.ok_or("no batches")?)?)
    }
}

#[async_trait]
impl Harness for HybridHarness {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> Profile {
        self.database.profile().with_cache()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let Product { product, version } = self.database.product().await?;
        let product = format!("cache in front of {product}");
        Ok(Product::new(product, version))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let url = self.cache_url()?;
        let namespace = self.database.create().await?;
        Ok(format!("{namespace}{SEPARATOR}{url}"))
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(self.metered(namespace).await?)
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        self.forget(namespace);
        self.database.destroy(split(namespace).0).await
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(self.metered(namespace).await?))
    }

    async fn begin(&self, namespace: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        self.database.begin(split(namespace).0).await
    }

    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let database = split(namespace).0;
        let database = self.database.open_batch_through(database, address).await?;
        let store = database.map(|database| self.in_front(namespace, database));
        Ok(store
            .transpose()?
            .map(|store| store as Arc<dyn IdempotencyStore>))
    }

    fn server_address(&self) -> Option<SocketAddr> {
        self.database.server_address()
    }
}
