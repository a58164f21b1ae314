//! Redis and Valkey.

use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use idem_redis::redis::cluster::ClusterClientBuilder;
use idem_redis::redis::cluster_async::ClusterConnection;
use idem_redis::redis::cluster_routing::{
    MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo,
};
use idem_redis::redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisFuture, RedisResult, Value,
    cmd, from_redis_value,
};
use idem_redis::{Config, RedisCache, RedisStore};

use crate::{Adapter, ServerUrl, random_name};

/// How long a connection waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Keys of one step of a scan.
const STEP: u32 = 1_000;

/// A server, or the nodes of a cluster. Each namespace is a prefix of keys.
#[derive(Debug, Clone)]
pub struct Redis {
    url: ServerUrl,
    config: Config,
}

impl Redis {
    /// Creates the adapter of the server, or the nodes, at this URL.
    pub fn new(url: impl Into<ServerUrl>) -> Self {
        Self {
            url: url.into(),
            config: Config::new(),
        }
    }

    /// Opens stores with this configuration, in the namespace.
    #[must_use]
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Returns whether keys are spread over several nodes.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.url.nodes().len() > 1
    }

    /// Opens a store with this configuration.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn store_with(&self, config: Config) -> Result<RedisStore, BoxError> {
        Ok(match self.url.nodes()[..] {
            [url] => RedisStore::connect(url, config).await?,
            ref urls => RedisStore::connect_cluster(urls, config).await?,
        })
    }

    /// Opens a cache.
    ///
    /// # Errors
    ///
    /// The cache's.
    pub fn cache(&self, namespace: &str) -> Result<RedisCache, BoxError> {
        Ok(match self.url.nodes()[..] {
            [url] => RedisCache::new(url, namespace, &Config::new())?,
            ref urls => RedisCache::new_cluster(urls, namespace, &Config::new())?,
        })
    }

    /// Connects beside the store.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn connect(&self) -> RedisResult<Connection> {
        Connection::open(&self.url.nodes()).await
    }

    /// Sends a command beside the store to the node that has its key.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, BoxError> {
        Ok(command.query_async(&mut self.connect().await?).await?)
    }

    /// Returns all keys of a namespace, in order.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn keys(&self, namespace: &str) -> Result<Vec<Vec<u8>>, BoxError> {
        let mut keys = self.connect().await?.keys(&format!("{namespace}*")).await?;
        keys.sort();
        Ok(keys)
    }
}

#[async_trait]
impl Adapter for Redis {
    type Store = RedisStore;

    async fn product(&self) -> Result<(String, String), BoxError> {
        let (name, version) = self.connect().await?.product().await?;
        let nodes = self.url.nodes().len();
        Ok(match self.is_cluster() {
            true => (format!("{name} Cluster, {nodes} nodes"), version),
            false => (name, version),
        })
    }

    /// Returns a short name, because every key begins with it.
    fn new_name(&self) -> String {
        let mut name = random_name();
        name.truncate(26);
        name
    }

    /// Creates nothing: the first value creates its key.
    async fn create(&self, _: &str) -> Result<(), BoxError> {
        Ok(())
    }

    async fn store(&self, namespace: &str) -> Result<RedisStore, BoxError> {
        self.store_with(self.config.clone().with_namespace(namespace)?)
            .await
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        Ok(self
            .connect()
            .await?
            .remove(&format!("{namespace}*"))
            .await?)
    }

    fn url(&self) -> Option<&ServerUrl> {
        Some(&self.url)
    }

    fn with_url(mut self, url: ServerUrl) -> Self {
        self.url = url;
        self
    }
}

/// A connection to one server, or to all of a cluster. Any number of callers may use a clone at the
/// same time.
#[derive(Clone)]
pub enum Connection {
    /// To one server.
    Node(MultiplexedConnection),
    /// To all of a cluster.
    Cluster(ClusterConnection),
}

impl Connection {
    async fn open(urls: &[&str]) -> RedisResult<Self> {
        if let [url] = urls {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(TIMEOUT))
                .set_response_timeout(Some(TIMEOUT));
            let client = Client::open(*url)?;
            let node = client.get_multiplexed_async_connection_with_config(&config);
            return node.await.map(Self::Node);
        }
        let client = ClusterClientBuilder::new(urls.iter().copied())
            .connection_timeout(TIMEOUT)
            .response_timeout(TIMEOUT)
            .build()?;
        client.get_async_connection().await.map(Self::Cluster)
    }

    /// Returns name and version of the server.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn product(&mut self) -> RedisResult<(String, String)> {
        let masters = self.masters().await?;
        let first = masters.first().and_then(Option::as_deref);
        let info: String = self.query_at(first, cmd("INFO").arg("server")).await?;
        Ok(product(&info))
    }

    /// Returns the keys that match, on every master.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn keys(&mut self, pattern: &str) -> RedisResult<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        for master in self.masters().await? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(pattern);
                scan.arg("COUNT").arg(STEP);
                let (next, keys): (_, Vec<_>) = self.query_at(master.as_deref(), &scan).await?;
                found.extend(keys);
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Removes the keys that match.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn remove(&mut self, pattern: &str) -> RedisResult<()> {
        let keys = self.keys(pattern).await?;
        // In a cluster one by one: each key may be in another slot.
        let at_once = match self {
            Self::Node(_) => STEP as usize,
            Self::Cluster(_) => 1,
        };
        for keys in keys.chunks(at_once) {
            let () = cmd("UNLINK").arg(keys).query_async(self).await?;
        }
        Ok(())
    }

    /// Returns the addresses of a cluster's masters; a single server needs none.
    async fn masters(&mut self) -> RedisResult<Vec<Option<String>>> {
        let Self::Cluster(cluster) = self else {
            return Ok(vec![None]);
        };
        let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let answers = cluster.route_command(cmd("PING"), all).await?;
        let answers: Vec<(String, Value)> = from_redis_value(answers)?;
        let addresses = answers.into_iter().map(|(address, _)| Some(address));
        Ok(addresses.collect())
    }

    /// Runs a command at the master with this address, or at the only server.
    async fn query_at<T: FromRedisValue>(
        &mut self,
        address: Option<&str>,
        command: &Cmd,
    ) -> RedisResult<T> {
        let address = address.and_then(|address| address.rsplit_once(':'));
        let (Self::Cluster(cluster), Some((host, port))) = (&mut *self, address) else {
            return command.query_async(self).await;
        };
        let node = SingleNodeRoutingInfo::ByAddress {
            host: host.to_owned(),
            port: port.parse().unwrap_or_default(),
        };
        let node = RoutingInfo::SingleNode(node);
        let answer = cluster.route_command(command.clone(), node).await?;
        Ok(from_redis_value(answer)?)
    }
}

/// Shows no address.
impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Node(node) => node.req_packed_command(cmd),
            Self::Cluster(cluster) => cluster.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Node(node) => node.req_packed_commands(pipeline, offset, count),
            Self::Cluster(cluster) => cluster.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Node(node) => node.get_db(),
            Self::Cluster(cluster) => cluster.get_db(),
        }
    }
}

/// Reads `INFO server`: name and version. A Valkey names itself there, beside the version of the
/// Redis that it follows.
fn product(info: &str) -> (String, String) {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let (name, version) = match field("valkey_version") {
        Some(version) => ("Valkey", version),
        None => ("Redis", field("redis_version").unwrap_or("unknown")),
    };
    (name.to_owned(), version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valkey_is_not_taken_for_the_redis_that_it_follows() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n";
        assert_eq!(product(redis), ("Redis".into(), "7.0.15".into()));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
        assert_eq!(product(valkey), ("Valkey".into(), "8.1.1".into()));
    }
}
