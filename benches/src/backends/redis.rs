//! Redis and Valkey.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_redis::redis::aio::MultiplexedConnection;
use idem_redis::redis::{self, Client};
use idem_redis::{Config, RedisStore};

use super::namespace;
use crate::{Backend, Handle, Share, Statements};

/// A server; each namespace is a prefix of keys. The keys end with their server, or after a day.
#[derive(Debug)]
pub(super) struct Redis {
    name: &'static str,
    url: String,
}

impl Redis {
    pub(super) fn at(name: &'static str, url: String) -> Self {
        Self { name, url }
    }

    async fn store(&self, namespace: &str) -> Result<RedisStore, BoxError> {
        let config = Config::new().with_namespace(namespace)?;
        Ok(RedisStore::connect(&self.url, config).await?)
    }

    async fn connection(&self) -> Result<MultiplexedConnection, BoxError> {
        let client = Client::open(self.url.as_str())?;
        Ok(client.get_multiplexed_async_connection().await?)
    }
}

#[async_trait]
impl Backend for Redis {
    fn name(&self) -> &str {
        self.name
    }

    async fn create(&self) -> Result<String, BoxError> {
        Ok(namespace())
    }

    async fn open(&self, namespace: &str) -> Result<Handle, BoxError> {
        Ok(Handle::Batch(Arc::new(self.store(namespace).await?)))
    }

    /// Deletes the namespace's keys, so that the server does not hold those of all earlier rounds.
    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        let mut connection = self.connection().await?;
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(format!("{namespace}*"));
            scan.arg("COUNT").arg(1000);
            let (next, keys): (String, Vec<Vec<u8>>) = scan.query_async(&mut connection).await?;
            if !keys.is_empty() {
                let mut unlink = redis::cmd("UNLINK");
                unlink.arg(keys).exec_async(&mut connection).await?;
            }
            cursor = next;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Opens one multiplexed connection, like the store's: the driver pipelines concurrent calls on
    /// it. The driver has no pool, and one connection per caller would be slower.
    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        Ok(Arc::new(Commands {
            connection: self.connection().await?,
            namespace: namespace.to_owned(),
        }))
    }

    fn share(&self) -> Option<Share> {
        Some(Share::One)
    }
}

/// The retention of a key, in milliseconds.
const DAY: u64 = 86_400_000;

struct Commands {
    connection: MultiplexedConnection,
    namespace: String,
}

impl Commands {
    /// Returns a key as long as the store's.
    fn key(&self, id: &str) -> String {
        [self.namespace.as_str(), id].concat()
    }
}

#[async_trait]
impl Statements for Commands {
    async fn insert(&self, id: &str) -> Result<(), BoxError> {
        let mut set = redis::cmd("SET");
        set.arg(self.key(id)).arg("").arg("NX").arg("PX").arg(DAY);
        let answer: Option<String> = set.query_async(&mut self.connection.clone()).await?;
        answer
            .map(drop)
            .ok_or_else(|| "the key was not fresh".into())
    }

    async fn update(&self, id: &str, response: &[u8]) -> Result<(), BoxError> {
        let mut set = redis::cmd("SET");
        set.arg(self.key(id)).arg(response).arg("XX");
        set.arg("PX").arg(DAY);
        let answer: Option<String> = set.query_async(&mut self.connection.clone()).await?;
        answer.map(drop).ok_or_else(|| "no such key".into())
    }

    async fn select(&self, id: &str) -> Result<usize, BoxError> {
        let mut get = redis::cmd("GET");
        get.arg(self.key(id));
        let answer: Option<Vec<u8>> = get.query_async(&mut self.connection.clone()).await?;
        Ok(answer.ok_or("no such key")?.len())
    }
}
