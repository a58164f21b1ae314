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
//! The ledger holds an effect as its first caller wrote it, so the report counts only the takeovers
//! before it.

mod ledger;
mod server;

use async_trait::async_trait;
use idem_core::{BoxError, Error, IdempotencyStore, Response};
use idem_redis::RedisStore;
use idem_stores::Adapter;
use std::sync::Arc;

use super::{Backend, Location, RETENTION, Settlement};
use crate::storm::entry::Entry;
use crate::storm::point::Point;
use crate::storm::stop::Stop;
use crate::storm::url::without_credentials;
use ledger::Ledger;
pub(super) use server::Server;

/// The ledger's name in keys and errors.
const LEDGER: &str = "ledger";

#[derive(Debug)]
pub(crate) struct Redis {
    store: RedisStore,
    server: Server,
    ledger: Ledger,
}

impl Redis {
    /// Opens the store. Several URLs, separated by commas, are nodes of one cluster.
    pub(crate) async fn open(location: &Location) -> Result<Self, Stop> {
        let server = Server::open(&location.url).await?;
        let store = server.adapter().store(&location.namespace).await;
        let store = store.map_err(|error| {
            let server = without_credentials(&location.url);
            let message = format!("--store: Redis at {server} cannot be used");
            Stop::because(message, &*error)
        })?;
        Ok(Self {
            store,
            server,
            ledger: Ledger::new(&location.namespace),
        })
    }
}

#[async_trait]
impl Backend for Redis {
    fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::new(self.store.clone())
    }

    async fn product(&self) -> Result<String, BoxError> {
        self.server.product().await
    }

    /// Creates nothing: the first value creates its key.
    async fn create(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn remove(&self) -> Result<(), BoxError> {
        self.ledger.remove(&self.server).await?;
        self.server.forget(self.store.config().namespace()).await
    }

    /// The effect comes first: a claim is never completed without one.
    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError> {
        let Settlement {
            claim,
            entry,
            response,
            probe,
        } = settlement;
        let key = claim.derive(LEDGER);
        let written = self.ledger.request(&self.server, key.id(), entry).await?;
        let written = written.ok_or_else(|| Error::claim_lost().at(LEDGER, "request"))?;
        probe.pass(Point::Uncommitted).await;
        // A receipt has to be that of the effect that happened; an answer that does not depend on
        // the worker stays.
        let response = if *response == entry.response() {
            written.response()
        } else {
            response.clone()
        };
        self.store.complete(claim, &response, RETENTION).await?;
        Ok(response)
    }

    async fn append(&self, entry: &Entry) -> Result<(), BoxError> {
        self.ledger.append(&self.server, entry).await
    }

    async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
        self.ledger.read(&self.server).await
    }
}
