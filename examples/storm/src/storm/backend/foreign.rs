//! A store of somebody else: records there, and effects in a service with its own idempotency keys.
//!
//! As with Redis, no transaction holds a record and an effect, so the derived key makes the effect
//! exact. The service is a SQLite file beside the store. It is idempotent by a store of this family:
//! its own record and the row of its ledger commit together.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{BoxError, ClaimOutcome, ClaimRequest, Fingerprint, IdempotencyStore, Response};

use super::sqlite::Sqlite;
use super::{Backend, Entry, Location, Settlement};
use crate::storm::worker::Probe;

/// Opens the store at a place, whose form the store defines. Worker processes open it, too.
pub type Open =
    fn(String) -> Pin<Box<dyn Future<Output = Result<Arc<dyn IdempotencyStore>, BoxError>> + Send>>;

/// Name and opener of the store that this program was built for.
static REGISTERED: OnceLock<(&str, Open)> = OnceLock::new();

/// How long the service holds a request that a killed worker left.
const LEASE: Duration = Duration::from_millis(200);

pub(crate) fn register(name: &'static str, open: Open) {
    // A program has one `main`.
    let _ = REGISTERED.set((name, open));
}

/// Returns the name of the registered store.
pub(crate) fn name() -> Option<&'static str> {
    REGISTERED.get().map(|(name, _)| *name)
}

#[derive(Debug)]
pub(super) struct Foreign {
    name: &'static str,
    store: Arc<dyn IdempotencyStore>,
    service: Sqlite,
}

impl Foreign {
    /// Opens the store at `NAME:FOLDER`.
    pub(super) async fn boxed(location: &Location) -> Result<Box<dyn Backend>, BoxError> {
        let place = location.url.split_once(':').map_or("", |(_, place)| place);
        let registered = REGISTERED.get();
        let (name, open) = registered.ok_or("this program is built without a store of its own")?;
        let service = Location {
            url: format!("sqlite:{place}/service.db"),
            ..location.clone()
        };
        Ok(Box::new(Self {
            name,
            store: open(place.to_owned()).await?,
            service: Sqlite::open(&service).await?,
        }))
    }

    /// Requests the effect under a key. Returns the one effect that this key ever has, of this
    /// caller or of an earlier one.
    async fn request(&self, settlement: &Settlement) -> Result<Entry, BoxError> {
        let key = settlement.claim.derive("service");
        let request = ClaimRequest::new(key, Fingerprint::raw("effect")).with_lease(LEASE);
        loop {
            match self.service.store().claim(&request).await? {
                ClaimOutcome::Acquired(claim) => {
                    let entry = settlement.entry.clone();
                    let own = Settlement {
                        claim,
                        response: entry.response(),
                        entry,
                        probe: Probe::default(),
                    };
                    return Entry::read(self.service.settle(&own).await?.body());
                }
                ClaimOutcome::Completed(completed) => {
                    return Entry::read(completed.response.body());
                }
                _ => tokio::time::sleep(LEASE / 20).await,
            }
        }
    }
}

#[async_trait]
impl Backend for Foreign {
    fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::clone(&self.store)
    }

    async fn product(&self) -> Result<String, BoxError> {
        Ok(self.name.to_owned())
    }

    async fn create(&self) -> Result<(), BoxError> {
        self.service.create().await
    }

    async fn remove(&self) -> Result<(), BoxError> {
        self.service.remove().await
    }

    /// The effect comes first: a claim is never completed without one.
    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError> {
        let written = self.request(settlement).await?;
        settlement.complete(&*self.store, &written).await
    }

    async fn append(&self, entry: &Entry) -> Result<(), BoxError> {
        self.service.append(entry).await
    }

    async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
        self.service.ledger().await
    }
}
