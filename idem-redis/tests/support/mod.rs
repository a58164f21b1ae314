//! How the tests reach Redis.

mod tap;

pub(crate) use tap::Tap;

use std::net::SocketAddr;
use std::ops::Deref;

use idem_conformance::{CaseError, Context, Missing, Profile};
use idem_core::BoxError;
use idem_redis::RedisStore;
use idem_redis::redis::{Client, Cmd, FromRedisValue};
use idem_stores::{Adapter, Redis, ServerUrl, Suite, found};

/// Creates the target of this name.
pub(crate) fn target(name: &str) -> Result<Suite<Redis>, Missing> {
    let profile = Profile::new()
        .shared_between_processes()
        .durable()
        .password()
        .server_clock()
        .batch()
        .self_expiring()
        .checkpoints()
        .watermarks()
        .admin();
    let RedisHarness(adapter) = RedisHarness::of(name)?;
    let profile = match adapter.is_cluster() {
        // A client of a cluster uses the addresses that the nodes report.
        true => profile,
        false => profile.network(),
    };
    Ok(Suite::new(name, adapter, profile))
}

/// The server of a case of this crate.
pub(crate) struct RedisHarness(Redis);

impl Deref for RedisHarness {
    type Target = Redis;

    fn deref(&self) -> &Redis {
        &self.0
    }
}

impl RedisHarness {
    /// The server of the target with this name.
    fn of(name: &str) -> Result<Self, Missing> {
        let server = match name {
            "valkey" | "redis-cluster" => name,
            _ => "redis",
        };
        Ok(Self(Redis::new(found(server)?)))
    }

    /// Opens a store of the concrete type.
    pub(crate) async fn store(&self, namespace: &str) -> Result<RedisStore, BoxError> {
        Adapter::store(&self.0, namespace).await
    }

    /// Returns the server's address.
    pub(crate) fn server_address(&self) -> Option<SocketAddr> {
        self.0.address()
    }

    /// Sends a command of the tests' own to every node.
    pub(crate) async fn query_everywhere(&self, cmd: &Cmd) -> Result<(), BoxError> {
        for url in self.0.url().map(ServerUrl::nodes).unwrap_or_default() {
            query_url::<()>(url, cmd).await?;
        }
        Ok(())
    }
}

/// Sends a command to the server of this URL.
pub(crate) async fn query_url<T: FromRedisValue>(url: &str, cmd: &Cmd) -> Result<T, BoxError> {
    let mut connection = Client::open(url)?
        .get_multiplexed_async_connection()
        .await?;
    Ok(cmd.query_async(&mut connection).await?)
}

/// The server that a case runs on.
pub(crate) fn harness(cx: &Context) -> Result<RedisHarness, CaseError> {
    RedisHarness::of(cx.harness().name()).map_err(|missing| CaseError::new(missing.to_string()))
}
