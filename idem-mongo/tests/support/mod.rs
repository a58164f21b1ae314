//! How the tests reach a MongoDB.

mod imitated;
pub(crate) mod standalone;
mod watch;

pub(crate) use imitated::Imitated;
pub(crate) use watch::Watch;

use std::ops::Deref;
use std::time::Duration;

use idem_conformance::{CaseError, CaseResult, Context, Missing, Profile};
use idem_core::BoxError;
use idem_mongo::MongoStore;
use idem_mongo::mongodb::bson::{Document, doc};
use idem_stores::{Adapter, Mongo, Suite, found};

/// Creates the target. The TTL monitor deletes expired records, and nothing counts them.
pub(crate) fn target() -> Result<Suite<Mongo>, Missing> {
    let profile = Profile::new()
        .with_slots_per_core(2)
        .shared_between_processes()
        .durable()
        .password()
        .server_clock()
        .network()
        .batch()
        .self_expiring()
        .checkpoints()
        .watermarks()
        .admin()
        .transactions()
        .row_locks()
        .with_claims_that_ask_again()
        .with_measured_lease()
        .with_clock_tick(Duration::from_millis(1));
    let MongoHarness(adapter) = MongoHarness::from_environment()?;
    Ok(Suite::new("mongo", adapter, profile))
}

/// Returns the same server as one that behaves otherwise, until the case ends.
pub(crate) async fn imitated(imitated: Imitated) -> CaseResult<Mongo> {
    let MongoHarness(adapter) = harness()?;
    let server = adapter.address().ok_or("the URL has no address")?;
    let proxied = adapter.through(imitated::start(server, imitated).await?);
    Ok(proxied.ok_or("no proxy is possible")?)
}

/// The server of the cases of this crate.
pub(crate) struct MongoHarness(Mongo);

impl Deref for MongoHarness {
    type Target = Mongo;

    fn deref(&self) -> &Mongo {
        &self.0
    }
}

impl MongoHarness {
    /// Returns the server that the environment names, or one started for the tests.
    pub(crate) fn from_environment() -> Result<Self, Missing> {
        Ok(Self(Mongo::new(found("mongo")?)))
    }

    /// Opens a store of the concrete type.
    pub(crate) async fn store(&self, namespace: &str) -> Result<MongoStore, BoxError> {
        Adapter::store(&self.0, namespace).await
    }
}

/// Returns the server that a case runs on.
pub(crate) fn harness() -> Result<MongoHarness, CaseError> {
    MongoHarness::from_environment().map_err(|missing| CaseError::new(missing.to_string()))
}

/// Returns the records of a case, as documents.
pub(crate) async fn documents(cx: &Context) -> Result<Vec<Document>, CaseError> {
    let database = harness()?.database(cx.namespace()).await?;
    let records = database.collection::<Document>("idem_records");
    let mut cursor = records
        .find(doc! { "token": { "$exists": true } })
        .sort(doc! { "_id": 1 })
        .await?;
    let mut found = Vec::new();
    while cursor.advance().await? {
        found.push(cursor.deserialize_current()?);
    }
    Ok(found)
}
