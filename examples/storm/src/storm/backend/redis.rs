//! Redis and Valkey, also as a cluster: records there, and effects in a service with its own
//! idempotency keys.
//!
//! No transaction holds a record and an effect. The effect happens elsewhere, such as at a payment
//! provider, and the worker may be killed between the effect and the completion. The effect happens
//! once because the provider gets the same key at each attempt
//! ([`Claim::derive`](idem_core::Claim::derive)), and has one effect for one key. The attempt that
//! takes over the claim repeats the call, receives the first result, and stores it. The call also
//! carries the fencing token, so that the provider can refuse a worker that was paused and has lost
//! its claim.
//!
//! Without such a key at the service, a store like this leaves a gap; `--sabotage two-transactions`
//! shows it.
//!
//! The provider is a script on the same Redis, for lack of another server. It shares no transaction
//! with the records: a call happens, or not, whatever becomes of the claim. A stream holds the
//! effects as their first callers wrote them, so the report counts only the takeovers before them.
//! A hash holds the key of each effect. The names of both share a hash tag, so a cluster has both
//! on one node.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BoxError, Error, IdempotencyStore, Response};
use idem_redis::RedisStore;
use idem_redis::redis::{Cmd, FromRedisValue, RedisResult, cmd};
use idem_stores::{Adapter, Connection};
use tokio::sync::Mutex;

use super::server::reach;
use super::{Backend, Entry, Location, RETENTION, Settlement};
use crate::storm::probe::Point;
use crate::storm::seat::without_credentials;
use crate::storm::stop::{OrStop, Stop};

/// The ledger's name in keys and errors.
const LEDGER: &str = "ledger";

/// Entries of a page.
const PAGE: u32 = 1_000;

#[derive(Debug)]
pub(super) struct Redis {
    adapter: idem_stores::Redis,
    /// The connection, which is replaced after an error.
    connection: Mutex<Option<Connection>>,
    store: RedisStore,
    stream: String,
    effects: String,
}

/// Connects to a server. Several URLs, separated by commas, are nodes of one cluster.
pub(super) async fn connect(urls: &str) -> Result<(idem_stores::Redis, Connection), Stop> {
    let adapter = idem_stores::Redis::new(urls);
    let server = format!("Redis at {}", without_credentials(urls));
    let connection = reach(&server, "user and password", adapter.connect()).await?;
    Ok((adapter, connection))
}

/// Returns name and version.
pub(super) async fn product(server: &idem_stores::Redis) -> Result<String, BoxError> {
    let (name, version, is_cluster) = server.connect().await?.product().await?;
    let cluster = if is_cluster { " cluster" } else { "" };
    Ok(format!("{name} {version}{cluster}"))
}

impl Redis {
    pub(super) async fn open(location: &Location) -> Result<Self, Stop> {
        let Location { url, namespace, .. } = location;
        let (adapter, connection) = connect(url).await?;
        let unusable = format!(
            "--store: Redis at {} cannot be used",
            without_credentials(url)
        );
        Ok(Self {
            store: adapter.store(namespace).await.or_stop(unusable)?,
            adapter,
            connection: Mutex::new(Some(connection)),
            stream: format!("{namespace}:{{{LEDGER}}}"),
            effects: format!("{namespace}:{{{LEDGER}}}:effects"),
        })
    }

    async fn connection(&self) -> RedisResult<Connection> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = &*slot {
            return Ok(connection.clone());
        }
        let connection = self.adapter.connect().await?;
        Ok(slot.insert(connection).clone())
    }

    /// Runs a command. After an error, the next one connects again.
    async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, BoxError> {
        let answer = command.query_async(&mut self.connection().await?).await;
        if answer.is_err() {
            *self.connection.lock().await = None;
        }
        Ok(answer?)
    }

    /// Requests the effect under a key. Returns the one effect that this key ever has, of this
    /// caller or of an earlier one. Returns `None` for a caller that comes after one with a greater
    /// token.
    async fn request(&self, key: &str, entry: &Entry) -> Result<Option<Entry>, BoxError> {
        let mut call = cmd("EVAL");
        call.arg(include_str!("ledger.lua")).arg(2);
        call.arg(&self.effects).arg(&self.stream);
        call.arg(key).arg(entry.token).arg(entry.receipt());
        let written: Option<Vec<u8>> = self.query(&call).await?;
        written.map(|written| Entry::read(&written)).transpose()
    }
}

#[async_trait]
impl Backend for Redis {
    fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::new(self.store.clone())
    }

    async fn product(&self) -> Result<String, BoxError> {
        product(&self.adapter).await
    }

    /// Creates nothing: the first value creates its key.
    async fn create(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn remove(&self) -> Result<(), BoxError> {
        self.adapter.destroy(self.store.config().namespace()).await
    }

    /// The effect comes first: a claim is never completed without one.
    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError> {
        let (claim, entry) = (&settlement.claim, &settlement.entry);
        let written = self.request(claim.derive(LEDGER).id(), entry).await?;
        let written = written.ok_or_else(|| Error::claim_lost().at(LEDGER, "request"))?;
        settlement.probe.pass(Point::Uncommitted).await;
        // A receipt has to be that of the effect that happened; an answer that does not depend on
        // the worker stays.
        let response = match settlement.response == entry.response() {
            true => written.response(),
            false => settlement.response.clone(),
        };
        self.store.complete(claim, &response, RETENTION).await?;
        Ok(response)
    }

    /// Requests the effect without a key: it happens at every call.
    async fn append(&self, entry: &Entry) -> Result<(), BoxError> {
        let mut add = cmd("XADD");
        add.arg(&self.stream).arg("*").arg("entry");
        self.query(add.arg(entry.receipt())).await
    }

    /// Reads page by page.
    async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
        let mut entries = Vec::new();
        let mut from = "-".to_owned();
        loop {
            let mut range = cmd("XRANGE");
            range.arg(&self.stream).arg(&from).arg("+");
            range.arg("COUNT").arg(PAGE);
            let page: Vec<(String, (String, Vec<u8>))> = self.query(&range).await?;
            let Some((last, _)) = page.last() else {
                return Ok(entries);
            };
            from = format!("({last}");
            for (_, (_, entry)) in &page {
                entries.push(Entry::read(entry)?);
            }
        }
    }
}
