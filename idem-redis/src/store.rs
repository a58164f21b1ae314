//! [`RedisStore`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::{FinalResult, check, check_scheme, not_connected};
use idem_core::{
    CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error, Failure, IdempotencyStore,
    Key, Limits, Record, RecordAdmin, Response, Result, WatermarkStore,
};
use redis::RedisResult;
use tokio::time::Instant;

use crate::config::Config;
use crate::connect::Connector;
use crate::ended::EndedClaim;
use crate::error::{Access, classify};
use crate::hub::Hub;
use crate::link::Link;
use crate::operations::{Operations, is_done, is_result, is_something};
use crate::script::Call;
use crate::shortcuts::Shortcuts;

pub(crate) const BACKEND: &str = "redis";

const SCHEMES: &[&str] = &[
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis+unix",
    "valkey+unix",
    "unix",
];

const FORM: &str = "redis://user:password@host:port/number, or rediss://… for TLS";

/// The store on Redis or Valkey.
///
/// Clones share the connection, which any number of concurrent callers use at the same time.
/// Nothing has to be created on the server.
///
/// ```no_run
/// use std::time::Duration;
/// use idem_redis::{Config, RedisStore, Replicas};
///
/// # async fn example() -> Result<(), idem_redis::idem_core::Error> {
/// let replicas = Replicas::new(1, Duration::from_millis(500)); // WAIT: acknowledged is replicated
/// let sentinels = ["redis://sentinel-1:26379", "redis://sentinel-2:26379"];
/// let config = Config::new().with_namespace("shop")?.with_replicas(replicas);
/// let led = RedisStore::connect_sentinel(&sentinels, "mymaster", "redis://app:secret@any", config.clone()).await?;
/// let cluster = RedisStore::connect_cluster(&["redis://node-1:7000", "redis://node-2:7000"], config).await?;
/// # Ok(())
/// # }
/// ```
///
/// * **Sentinel**: a demoted master answers `READONLY`. The store leaves it at once, and repeats on
///   the new master what the old one refused. An address that moves between servers (a virtual IP,
///   a cloud's endpoint) works with [`connect`](Self::connect) in the same way.
/// * **Cluster**: a record is one key without a hash tag, so it is in one slot, and records spread
///   over all slots. The store follows `MOVED` and `ASK`: a slot may move while claims go on. With
///   `cluster-node-timeout 1000` a failover takes two to three seconds. With replicas, each write
///   and its `WAIT` go to the master of the key, so the count is of *its* replicas.
///
/// | key | content |
/// | --- | --- |
/// | `namespace:r:scope:operation:id` | a record; it outlives its retention by the grace, in which its token is still known |
/// | `namespace:m:scope:operation:id` | a watermark: its version in 19 decimal digits |
/// | `namespace:n:author:nonce:…` | a nonce |
/// | `namespace:w:scope:operation:id` | the channel of a record's changes |
/// | `namespace:c:{bucket}:scope:operation:id`, `namespace:e:{bucket}` | the cache, in 256 buckets |
///
/// `%`, `:`, `{` and `}` in scope, operation and id are percent-encoded. The store never sends
/// `KEYS`.
#[derive(Clone)]
pub struct RedisStore {
    pub(crate) link: Arc<Link>,
    pub(crate) operations: Arc<Operations>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) shortcuts: Arc<Shortcuts>,
}

impl RedisStore {
    /// Connects to one server: `redis://user:password@host:port/database`, `rediss://…` for TLS
    /// (feature `tls`), `redis+unix:///path`.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the URL cannot be parsed, the port has TLS and the URL not (or the other
    /// way round), a command or a script with `TIME` is refused, or the server is too old or may drop
    /// records (the message says which setting or command); `Unavailable` when it cannot be reached or is a
    /// replica.
    pub async fn connect(url: &str, config: Config) -> Result<Self> {
        Self::connect_with(&[url], Connector::node(url, &config), config).await
    }

    /// Connects to the server that leads the group of this name, according to the sentinels at
    /// `urls`; they are queried at each connecting, so also after a failover. `template` is a URL
    /// with user, password, database and TLS of the servers themselves; its address does not
    /// matter.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect).
    pub async fn connect_sentinel(
        urls: &[&str],
        group: &str,
        template: &str,
        config: Config,
    ) -> Result<Self> {
        let connector = Connector::sentinel(urls, group, template, &config);
        Self::connect_with(&[urls, &[template]].concat(), connector, config).await
    }

    /// Connects to the cluster of these nodes; they name the others.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect).
    pub async fn connect_cluster(urls: &[&str], config: Config) -> Result<Self> {
        Self::connect_with(urls, Connector::cluster(urls, &config), config).await
    }

    async fn connect_with(
        urls: &[&str],
        connector: RedisResult<Connector>,
        config: Config,
    ) -> Result<Self> {
        let at = |error: Error| error.at(BACKEND, "connect");
        for url in urls {
            check_scheme(url, SCHEMES, FORM).map_err(at)?;
        }
        let connector = connector.map_err(|error| at(classify(error, Access::Read)))?;
        let link = Arc::new(Link::new(connector, &config));
        let operations = Arc::new(Operations::new(config).map_err(at)?);
        let store = Self {
            hub: Arc::new(Hub::new(Arc::clone(&link))),
            shortcuts: Arc::new(Shortcuts::new(&link, &operations)),
            link,
            operations,
        };
        if let Err(error) = store.link.check().await {
            let places = store.link.connector.addresses();
            let places: Vec<_> = places.iter().map(ToString::to_string).collect();
            return Err(at(not_connected(error, places.join(","))));
        }
        Ok(store)
    }

    /// Returns the settings of the store.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.operations.config
    }
}

/// Shows the names, not the server's address, which may hold a password.
impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("config", &self.operations.config)
            .finish_non_exhaustive()
    }
}

/// Gives the error of a step an unknown effect, because one before it may have had an effect.
pub(crate) fn after_write(error: Error) -> Error {
    error.with_effect(Effect::Unknown)
}

pub(crate) fn at(operation: &'static str) -> impl Fn(Error) -> Error {
    move |error| error.at(BACKEND, operation)
}

impl RedisStore {
    async fn renew_once(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        let call = self.operations.renew(claim, lease)?;
        let answer = self.link.run(&call, Access::Write, is_something).await?;
        Operations::renewed(claim, answer)
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>> {
        let call = self.operations.get(key);
        Operations::got(self.link.run(&call, Access::Read, is_result).await?)
    }

    /// Seals or releases, in a batch with concurrent callers if there are enough.
    async fn finish(&self, claim: &Claim, result: Result<FinalResult>) -> Result<()> {
        let (result, deadline) = (result?, self.link.deadline());
        let alone = || self.step_until(deadline, self.operations.finish(claim, &result));
        let Shortcuts { many, ended, .. } = &*self.shortcuts;
        let underway = self.shortcuts.enter();
        if !underway.is_in_company() || many.is_split() {
            return alone().await;
        }
        let end = EndedClaim::new(claim, &result, &self.operations);
        match ended.ask(end).await {
            Some(answer) => match answer? {
                Some(_) => Ok(()),
                None => self.by(deadline, alone()).await,
            },
            // The claim may be ended; then a repetition succeeds.
            None => self.by(deadline, alone()).await.map_err(after_write),
        }
    }

    /// Runs a step of the claim's holder that returns nothing.
    pub(crate) async fn step(&self, call: Result<Call<'_>>) -> Result<()> {
        self.step_until(self.link.deadline(), call?).await
    }

    async fn step_until(&self, deadline: Instant, call: Call<'_>) -> Result<()> {
        let answer = self
            .link
            .run_until(deadline, &call, Access::Write, is_done)
            .await?;
        Operations::done(&answer)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl IdempotencyStore for RedisStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn limits(&self) -> Limits {
        self.operations.config.limits()
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        Some(self)
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        Some(self)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.claim_once(request).await.map_err(at("claim"))
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let result = FinalResult::completed(response, retention, &self.limits());
        self.finish(claim, result).await.map_err(at("complete"))
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        let result = FinalResult::failed(failure, retention, &self.limits());
        self.finish(claim, result).await.map_err(at("fail"))
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        let result = Ok(FinalResult::released());
        self.finish(claim, result).await.map_err(at("release"))
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.renew_once(claim, lease).await.map_err(at("renew"))
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.read(key).await.map_err(at("get"))
    }

    /// The server deletes expired keys by itself; nothing is left to do.
    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        check::batch(limit).map_err(at("delete_expired"))?;
        Ok(0)
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.sweep_some(limit).await.map_err(at("fail_abandoned"))
    }
}
