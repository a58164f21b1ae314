//! [`Server`]: a Redis, a Valkey, or a cluster of either.

use idem_core::BoxError;
use idem_redis::redis::{Cmd, FromRedisValue, RedisResult, ScriptInvocation};
use idem_stores::{Connection, Redis};
use tokio::sync::Mutex;

use super::super::reach::reach;
use crate::storm::stop::Stop;
use crate::storm::url::without_credentials;

/// The address, and the connection, which is replaced after an error.
#[derive(Debug)]
pub(in super::super) struct Server {
    adapter: Redis,
    connection: Mutex<Option<Connection>>,
}

impl Server {
    /// Connects. Several URLs, separated by commas, are nodes of one cluster.
    pub(in super::super) async fn open(urls: &str) -> Result<Self, Stop> {
        let adapter = Redis::new(urls);
        let server = format!("Redis at {}", without_credentials(urls));
        let connection = reach(&server, "user and password", adapter.connect()).await?;
        Ok(Self {
            adapter,
            connection: Mutex::new(Some(connection)),
        })
    }

    /// Returns its access to stores and caches.
    pub(in super::super) fn adapter(&self) -> &Redis {
        &self.adapter
    }

    async fn connection(&self) -> RedisResult<Connection> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = &*slot {
            return Ok(connection.clone());
        }
        let connection = self.adapter.connect().await?;
        *slot = Some(connection.clone());
        Ok(connection)
    }

    /// Drops the connection after an error, so that the next caller connects again.
    async fn checked<T>(&self, answer: RedisResult<T>) -> Result<T, BoxError> {
        if answer.is_err() {
            *self.connection.lock().await = None;
        }
        Ok(answer?)
    }

    /// Runs a command.
    pub(super) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, BoxError> {
        let mut connection = self.connection().await?;
        let answer = command.query_async(&mut connection).await;
        self.checked(answer).await
    }

    /// Runs a script.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, BoxError> {
        let mut connection = self.connection().await?;
        let answer = script.invoke_async(&mut connection).await;
        self.checked(answer).await
    }

    /// Returns name and version.
    pub(in super::super) async fn product(&self) -> Result<String, BoxError> {
        let answer = self.connection().await?.product().await;
        let (name, version, is_cluster) = self.checked(answer).await?;
        let cluster = if is_cluster { " cluster" } else { "" };
        Ok(format!("{name} {version}{cluster}"))
    }

    /// Removes all keys of this namespace, on every master.
    pub(in super::super) async fn forget(&self, namespace: &str) -> Result<(), BoxError> {
        let removed = self
            .connection()
            .await?
            .remove(&format!("{namespace}:*"))
            .await;
        self.checked(removed).await
    }
}
