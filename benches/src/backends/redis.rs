//! Redis and Valkey. The keys end with their namespace, or after a day.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::Profile;
use idem_core::BoxError;
use idem_redis::redis::{self, Client, aio::MultiplexedConnection};
use idem_stores::{Redis, Suite};

use crate::{Backend, Baseline, Statements};

struct Bare {
    url: String,
}

/// Returns the server at this URL.
pub(super) fn backend(name: &str, url: String) -> Backend {
    let suite = Suite::new(name, Redis::new(url.clone()), Profile::new());
    Backend::new(suite).with_baseline(Bare { url })
}

#[async_trait]
impl Baseline for Bare {
    /// Opens one multiplexed connection, like the store's: the driver pipelines concurrent calls on
    /// it. The driver has no pool, and one connection per caller would be slower.
    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        let client = Client::open(self.url.as_str())?;
        Ok(Arc::new(Commands {
            connection: client.get_multiplexed_async_connection().await?,
            namespace: namespace.to_owned(),
        }))
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

    /// Fails unless the key is new (`NX`), or exists (`XX`).
    async fn set(&self, id: &str, response: &[u8], condition: &str) -> Result<(), BoxError> {
        let mut set = redis::cmd("SET");
        set.arg(self.key(id)).arg(response).arg(condition);
        set.arg("PX").arg(DAY);
        let answer: Option<String> = set.query_async(&mut self.connection.clone()).await?;
        let failed = || format!("SET {condition} did nothing").into();
        answer.map(drop).ok_or_else(failed)
    }
}

#[async_trait]
impl Statements for Commands {
    async fn insert(&self, id: &str) -> Result<(), BoxError> {
        self.set(id, b"", "NX").await
    }

    async fn update(&self, id: &str, response: &[u8]) -> Result<(), BoxError> {
        self.set(id, response, "XX").await
    }

    async fn select(&self, id: &str) -> Result<usize, BoxError> {
        let mut get = redis::cmd("GET");
        get.arg(self.key(id));
        let answer: Option<Vec<u8>> = get.query_async(&mut self.connection.clone()).await?;
        Ok(answer.ok_or("no such key")?.len())
    }
}
