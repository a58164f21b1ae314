//! Redis and Valkey, also as a cluster: records there, and effects in a service with its own
//! idempotency keys.
//!
//! No transaction holds a record and an effect. The effect happens elsewhere, such as at a payment
//! provider, and the worker may be killed between the effect and the completion. The effect happens
//! once because the provider gets the same key at each attempt
//! ([`Claim::derive`](idem_core::Claim::derive)), and has one effect for one key. The call also
//! carries the fencing token, so that the provider can refuse a worker that was paused and has lost
//! its claim. Without such a key at the service, a store like this leaves a gap; `--sabotage
//! two-transactions` shows it.
//!
//! The provider is a script on the same Redis, for lack of another server. It shares no transaction
//! with the records. A stream holds the effects as their first callers wrote them, so the report
//! counts only the takeovers before them. A hash holds the key of each effect. The names of both
//! share a hash tag, so a cluster has both on one node.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BoxError, Error, IdempotencyStore, Response};
use idem_redis::RedisStore;
use idem_redis::redis::cmd;
use idem_stores::Adapter;

use super::{Backend, Entry, Location, Settlement};

/// The ledger's name in keys and errors.
const LEDGER: &str = "ledger";

#[derive(Debug)]
pub(super) struct Redis {
    adapter: idem_stores::Redis,
    store: RedisStore,
    stream: String,
    effects: String,
}

impl Redis {
    /// Opens the store. Several URLs, separated by commas, are nodes of one cluster.
    pub(super) async fn boxed(location: &Location) -> Result<Box<dyn Backend>, BoxError> {
        let namespace = &location.namespace;
        let adapter = idem_stores::Redis::new(&*location.url);
        Ok(Box::new(Self {
            store: adapter.store(namespace).await?,
            adapter,
            stream: format!("{namespace}:{{{LEDGER}}}"),
            effects: format!("{namespace}:{{{LEDGER}}}:effects"),
        }))
    }

    /// Requests the effect under a key. Returns the one effect that this key ever has, of this
    /// caller or of an earlier one. Returns `None` for a caller that comes after one with a greater
    /// token.
    async fn request(&self, key: &str, entry: &Entry) -> Result<Option<Entry>, BoxError> {
        let mut call = cmd("EVAL");
        call.arg(include_str!("ledger.lua")).arg(2);
        call.arg(&self.effects).arg(&self.stream);
        call.arg(key).arg(entry.token).arg(entry.receipt());
        let written: Option<Vec<u8>> = self.adapter.query(&call).await?;
        written.map(|written| Entry::read(&written)).transpose()
    }
}

#[async_trait]
impl Backend for Redis {
    fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::new(self.store.clone())
    }

    async fn product(&self) -> Result<String, BoxError> {
        super::named(&self.adapter).await
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
        let key = settlement.claim.derive(LEDGER);
        let written = self.request(key.id(), &settlement.entry).await?;
        let written = written.ok_or_else(|| Error::claim_lost().at(LEDGER, "request"))?;
        settlement.complete(&self.store, &written).await
    }

    /// Requests the effect without a key: it happens at every call.
    async fn append(&self, entry: &Entry) -> Result<(), BoxError> {
        let mut add = cmd("XADD");
        add.arg(&self.stream).arg("*").arg("entry");
        self.adapter.query(add.arg(entry.receipt())).await
    }

    async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
        let mut range = cmd("XRANGE");
        range.arg(&self.stream).arg("-").arg("+");
        let rows: Vec<(String, (String, Vec<u8>))> = self.adapter.query(&range).await?;
        rows.iter()
            .map(|(_, (_, entry))| Entry::read(entry))
            .collect()
    }
}
