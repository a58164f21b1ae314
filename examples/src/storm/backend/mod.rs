//! [`Backend`]: a store together with the ledger of effects.

mod database;
mod hybrid;
mod mongo;
mod mssql;
mod mysql;
mod postgres;
mod reach;
mod redis;
mod sql;
mod sqlite;

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{BoxError, Claim, IdempotencyStore, Response};

use super::desk::Probe;
use super::entry::Entry;
use super::stop::Stop;
use super::url;

/// The retention of an answer: longer than any run.
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a run waits for a server that does not answer.
const SERVER_TIMEOUT: Duration = Duration::from_secs(5);

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
    /// Passes [`Point::Uncommitted`](super::point::Point::Uncommitted) when both are written but
    /// not committed; without a transaction, when the effect has happened and the claim is not
    /// completed. When the claim was lost, the error is the store's.
    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError>;

    /// Only makes the effect happen, as a service without idempotency does.
    async fn append(&self, entry: &Entry) -> Result<(), BoxError>;

    /// Returns all effects, in the order in which they were written.
    async fn ledger(&self) -> Result<Vec<Entry>, BoxError>;
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
#[derive(Clone)]
pub(crate) struct Location {
    /// The URL of `--store`, or of the file in the temporary folder.
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
    let Some((cache, database)) = url::tiers(&location.url) else {
        return open_one(location).await;
    };
    let behind = Location {
        url: database.to_owned(),
        ..location.clone()
    };
    let database = open_one(&behind).await?;
    Ok(Box::new(
        hybrid::Hybrid::open(cache, location, database).await?,
    ))
}

async fn open_one(location: &Location) -> Result<Box<dyn Backend>, Stop> {
    match url::scheme(&location.url) {
        "sqlite" => Ok(Box::new(sqlite::Sqlite::open(location).await?)),
        "postgres" | "postgresql" => Ok(Box::new(postgres::Postgres::open(location).await?)),
        "mysql" | "mariadb" => Ok(Box::new(mysql::MySql::open(location).await?)),
        "mssql" | "sqlserver" => Ok(Box::new(mssql::Mssql::open(location).await?)),
        "mongodb" => Ok(Box::new(mongo::Mongo::open(location).await?)),
        scheme if url::is_redis(scheme) => Ok(Box::new(redis::Redis::open(location).await?)),
        scheme => Err(Stop::new(format!(
            "--store: `{scheme}` is no store that this program knows; give sqlite:PATH, \
             postgres://USER@HOST:PORT/DATABASE, mysql://USER:PASSWORD@HOST:PORT/DATABASE, \
             mssql://USER:PASSWORD@HOST:PORT/DATABASE, mongodb://HOST:PORT, redis://HOST:PORT, or \
             hybrid+redis://HOST:PORT+DATABASE where DATABASE is one of the first five"
        ))),
    }
}
