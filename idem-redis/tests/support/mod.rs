//! How the tests reach Redis.

mod tap;

pub(crate) use tap::Tap;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use idem_conformance::{CaseError, Context, Harness, Missing, Product, Profile, with_password};
use idem_core::{AttemptId, BatchStore, BoxError, IdempotencyStore, async_trait};
use idem_redis::redis::aio::ConnectionLike;
use idem_redis::redis::cluster::ClusterClient;
use idem_redis::redis::{self, Client, Cmd, FromRedisValue};
use idem_redis::{Config, RedisCache, RedisStore};

/// A server, or the nodes of a cluster. Each namespace is a prefix of keys.
pub(crate) struct RedisHarness {
    name: &'static str,
    urls: Vec<String>,
}

impl RedisHarness {
    /// The backend of this name.
    pub(crate) fn of(name: &str) -> Result<Self, Missing> {
        let name = match name {
            "valkey" => "valkey",
            "redis-cluster" => "redis-cluster",
            _ => "redis",
        };
        let missing = || Missing::new(idem_servers::missing_reason(name));
        let urls = idem_servers::url_for(name).ok_or_else(missing)?;
        Ok(Self {
            name,
            urls: urls.split(',').map(ToOwned::to_owned).collect(),
        })
    }

    /// Whether keys are spread over several nodes.
    pub(crate) fn is_cluster(&self) -> bool {
        self.urls.len() > 1
    }

    /// Returns a store of the concrete type.
    pub(crate) async fn store(&self, namespace: &str) -> Result<RedisStore, BoxError> {
        self.store_with(Config::new().with_namespace(namespace)?)
            .await
    }

    /// Returns a store with other settings.
    pub(crate) async fn store_with(&self, config: Config) -> Result<RedisStore, BoxError> {
        let urls: Vec<_> = self.urls.iter().map(String::as_str).collect();
        Ok(match urls[..] {
            [url] => RedisStore::connect(url, config).await?,
            _ => RedisStore::connect_cluster(&urls, config).await?,
        })
    }

    /// Returns a cache.
    pub(crate) fn cache(&self, namespace: &str) -> Result<RedisCache, BoxError> {
        let urls: Vec<_> = self.urls.iter().map(String::as_str).collect();
        Ok(match urls[..] {
            [url] => RedisCache::new(url, namespace, &Config::new())?,
            _ => RedisCache::new_cluster(&urls, namespace, &Config::new())?,
        })
    }

    /// Sends a command of the tests' own to the node that has its key.
    pub(crate) async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T, BoxError> {
        if self.is_cluster() {
            let client = ClusterClient::new(self.urls.iter().map(String::as_str))?;
            Ok(cmd
                .query_async(&mut client.get_async_connection().await?)
                .await?)
        } else {
            self.query_at(0, cmd).await
        }
    }

    /// Sends it to one node, whichever has the key.
    pub(crate) async fn query_at<T: FromRedisValue>(
        &self,
        node: usize,
        cmd: &Cmd,
    ) -> Result<T, BoxError> {
        query_url(&self.urls[node], cmd).await
    }

    /// Sends it to every node.
    pub(crate) async fn query_everywhere(&self, cmd: &Cmd) -> Result<(), BoxError> {
        for url in &self.urls {
            query_url::<()>(url, cmd).await?;
        }
        Ok(())
    }

    /// Returns all keys of a namespace, by `SCAN` on every node.
    pub(crate) async fn keys(&self, namespace: &str) -> Result<Vec<Vec<u8>>, BoxError> {
        let mut found = Vec::new();
        for url in &self.urls {
            let client = Client::open(url.as_str())?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            let mut cursor = "0".to_owned();
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor).arg("MATCH").arg(format!("{namespace}*"));
                let (next, keys): (String, Vec<Vec<u8>>) = scan
                    .arg("COUNT")
                    .arg(1000)
                    .query_async(&mut connection)
                    .await?;
                found.extend(keys);
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
        }
        // A replica has its master's keys.
        found.sort();
        found.dedup();
        Ok(found)
    }
}

/// Deletes one key after the other, over one connection: in a cluster they are on different nodes.
async fn delete(connection: &mut impl ConnectionLike, keys: Vec<Vec<u8>>) -> Result<(), BoxError> {
    for key in keys {
        let () = redis::cmd("DEL").arg(key).query_async(connection).await?;
    }
    Ok(())
}

/// Sends a command to the server of this URL.
pub(crate) async fn query_url<T: FromRedisValue>(url: &str, cmd: &Cmd) -> Result<T, BoxError> {
    let mut connection = Client::open(url)?
        .get_multiplexed_async_connection()
        .await?;
    Ok(cmd.query_async(&mut connection).await?)
}

/// The harness that a case runs on.
pub(crate) fn harness(cx: &Context) -> Result<RedisHarness, CaseError> {
    RedisHarness::of(cx.harness().name()).map_err(|missing| CaseError::new(missing.to_string()))
}

#[async_trait]
impl Harness for RedisHarness {
    fn name(&self) -> &str {
        self.name
    }

    fn profile(&self) -> Profile {
        let profile = Profile::new()
            .shared_between_processes()
            .durable()
            .password()
            .server_clock()
            .batch()
            .self_expiring()
            .checkpoints()
            .watermarks();
        if self.is_cluster() {
            // A client of a cluster uses the addresses that the nodes report.
            profile
        } else {
            profile.network()
        }
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let info: String = self.query_at(0, redis::cmd("INFO").arg("server")).await?;
        let field = |name: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let (product, version) = match field("valkey_version") {
            Some(version) => ("Valkey", Some(version)),
            None => ("Redis", field("redis_version")),
        };
        let product = if self.is_cluster() {
            format!("{product} Cluster, {} nodes", self.urls.len())
        } else {
            product.to_owned()
        };
        Ok(Product::new(product, version.unwrap_or("?")))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
        Ok(format!("idem-test-{random:032x}"))
    }

    async fn open_with_password(
        &self,
        namespace: &str,
        password: &str,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let config = Config::new().with_namespace(namespace)?;
        let urls = self.urls.iter();
        let urls: Vec<_> = urls.map(|url| with_password(url, "", password)).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        let store = match urls[..] {
            [url] => RedisStore::connect(url, config).await?,
            _ => RedisStore::connect_cluster(&urls, config).await?,
        };
        Ok(Some(Arc::new(store)))
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.store(namespace).await?))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        let keys = self.keys(namespace).await?;
        if self.is_cluster() {
            let client = ClusterClient::new(self.urls.iter().map(String::as_str))?;
            delete(&mut client.get_async_connection().await?, keys).await
        } else {
            let client = Client::open(self.urls[0].as_str())?;
            delete(&mut client.get_multiplexed_async_connection().await?, keys).await
        }
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(self.store(namespace).await?)))
    }

    async fn open_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn IdempotencyStore>>, BoxError> {
        let config = Config::new().with_namespace(namespace)?;
        let url = format!("redis://{address}");
        Ok(Some(Arc::new(RedisStore::connect(&url, config).await?)))
    }

    async fn open_batch_through(
        &self,
        namespace: &str,
        address: SocketAddr,
    ) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        let config = Config::new().with_namespace(namespace)?;
        let url = format!("redis://{address}");
        Ok(Some(Arc::new(RedisStore::connect(&url, config).await?)))
    }

    fn server_address(&self) -> Option<SocketAddr> {
        let place = self.urls[0].strip_prefix("redis://")?;
        let place = place.split('/').next()?;
        place.to_socket_addrs().ok()?.next()
    }
}
