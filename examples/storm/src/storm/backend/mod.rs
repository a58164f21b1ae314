//! [`Backend`]: a store together with the ledger of effects.

mod database;
pub(crate) mod foreign;
#[cfg(feature = "redis")]
mod hybrid;
#[cfg(feature = "mongo")]
mod mongo;
#[cfg(feature = "mssql")]
mod mssql;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "server")]
mod server;
mod sqlite;

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{BoxError, Claim, IdempotencyStore, Response};
use serde::{Deserialize, Serialize};

use super::probe::Probe;
use super::seat::{Product, tiers};
use super::stop::Stop;

/// The retention of an answer: longer than any run.
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// A store, and a ledger that shows when an effect happened twice.
///
/// Where both are in one database, [`settle`](Self::settle) commits the effect and the answer
/// together. A store without such a transaction sends the effect to a service with its own
/// idempotency keys, by [`Claim::derive`], and completes the claim after it. The audit then reads
/// that service's ledger.
#[async_trait]
pub(crate) trait Backend: Debug + Send + Sync {
    /// Returns a handle on the store.
    fn store(&self) -> Arc<dyn IdempotencyStore>;

    /// Returns name and version of the running product.
    async fn product(&self) -> Result<String, BoxError>;

    /// Creates the records' table and the ledger.
    async fn create(&self) -> Result<(), BoxError>;

    /// Removes what [`create`](Self::create) made.
    async fn remove(&self) -> Result<(), BoxError>;

    /// Makes the effect happen and completes the claim with the answer; both or neither. Returns
    /// the answer, which differs from the settlement's if the effect had happened under an earlier
    /// claim.
    ///
    /// Passes [`Point::Uncommitted`](super::probe::Point::Uncommitted) when both are written but
    /// not committed; without a transaction, when the effect has happened and the claim is not
    /// completed. When the claim was lost, the error is the store's.
    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError>;

    /// Only makes the effect happen, as a service without idempotency does.
    async fn append(&self, entry: &Entry) -> Result<(), BoxError>;

    /// Returns all effects, in the order in which they were written.
    async fn ledger(&self) -> Result<Vec<Entry>, BoxError>;
}

/// A row of the ledger, which is append-only and has no unique constraint: an effect, with
/// everything that explains how it could happen twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The id of the request's key.
    pub(crate) key: String,
    /// The fingerprint of the payload that had the effect.
    pub(crate) fingerprint: String,
    /// The fencing token under which it was written; 0 without a claim.
    pub(crate) token: i64,
    /// How often the key had been acquired by then.
    pub(crate) attempts: i64,
    /// The delivery that did it.
    pub(crate) delivery: i64,
    /// The [worker](Location::worker) that did it.
    pub(crate) worker: String,
}

impl Entry {
    /// Returns the answer for the sender and every duplicate, byte for byte.
    pub(crate) fn receipt(&self) -> String {
        // Strings and integers always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the receipt as the stored response.
    pub(crate) fn response(&self) -> Response {
        Response::new(200, self.receipt())
    }

    /// Returns the entry of a receipt.
    fn read(receipt: &[u8]) -> Result<Self, BoxError> {
        Ok(serde_json::from_slice(receipt)?)
    }

    /// Returns the same, written under this claim.
    pub(crate) fn under(self, claim: &Claim) -> Self {
        Self {
            token: claim.token().as_i64(),
            attempts: i64::from(claim.attempts()),
            ..self
        }
    }
}

/// The effect and the answer that [`Backend::settle`] commits.
#[derive(Debug)]
pub(crate) struct Settlement {
    pub(crate) claim: Claim,
    pub(crate) entry: Entry,
    pub(crate) response: Response,
    pub(crate) probe: Probe,
}

/// The store that a process opens.
///
/// `Debug` does not show the URL, which may hold a password.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Location {
    /// The URL of `--store`, or of the file in the temporary folder.
    #[serde(rename = "store")]
    pub(crate) url: String,
    /// The run's own name for tables, schema or keys.
    pub(crate) namespace: String,
    /// How many connections the process may have to a server.
    pub(crate) connections: u32,
    /// The worker, such as `2.5`: its lane, and how often it had been restarted. Empty for the
    /// parent.
    pub(crate) worker: String,
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location")
            .field("namespace", &self.namespace)
            .field("connections", &self.connections)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

/// Opens the store that the URL names, with or without a cache in front of it.
pub(crate) async fn open(location: &Location) -> Result<Box<dyn Backend>, Stop> {
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    let Some((cache, database)) = tiers(&location.url) else {
        return open_one(location).await;
    };
    #[cfg(not(feature = "redis"))]
    return Err(Product::Redis.not_built());
    #[cfg(feature = "redis")]
    {
        let behind = Location {
            url: database.to_owned(),
            ..location.clone()
        };
        let database = open_one(&behind).await?;
        let hybrid = hybrid::Hybrid::open(cache, location, database).await?;
        Ok(Box::new(hybrid))
    }
}

async fn open_one(location: &Location) -> Result<Box<dyn Backend>, Stop> {
    let product = Product::of(&location.url).map_err(|scheme| {
        Stop::new(format!(
            "--store: `{scheme}` is no store that this program knows; give sqlite:PATH, \
             postgres://USER@HOST:PORT/DATABASE, mysql://USER:PASSWORD@HOST:PORT/DATABASE, \
             mssql://USER:PASSWORD@HOST:PORT/DATABASE, mongodb://HOST:PORT, redis://HOST:PORT, or \
             hybrid+redis://HOST:PORT+DATABASE where DATABASE is one of the first five"
        ))
    })?;
    Ok(match product {
        Product::Sqlite => Box::new(sqlite::Sqlite::open(location).await?),
        Product::Foreign => Box::new(foreign::Foreign::open(location).await?),
        #[cfg(feature = "postgres")]
        Product::Postgres => Box::new(postgres::Postgres::open(location).await?),
        #[cfg(feature = "mysql")]
        Product::MySql => Box::new(mysql::MySql::open(location).await?),
        #[cfg(feature = "mssql")]
        Product::Mssql => Box::new(mssql::Mssql::open(location).await?),
        #[cfg(feature = "mongo")]
        Product::Mongo => Box::new(mongo::Mongo::open(location).await?),
        #[cfg(feature = "redis")]
        Product::Redis => Box::new(redis::Redis::open(location).await?),
        #[allow(unreachable_patterns, reason = "with all features there is none")]
        missing => return Err(missing.not_built()),
    })
}
