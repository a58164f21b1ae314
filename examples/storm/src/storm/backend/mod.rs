//! [`Backend`]: a store together with the ledger of effects.

mod database;
pub(crate) mod foreign;
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
mod sqlite;

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{BoxError, Claim, IdempotencyStore, Response};
use serde::{Deserialize, Serialize};

use super::protocol::Point;
use super::seat::{feature, tiers, without_credentials};
use super::stop::{OrStop, Stop};
use super::worker::Probe;

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
    /// Passes [`Point::Uncommitted`] when both are written but not committed; without a
    /// transaction, when the effect has happened and the claim is not completed. When the claim was
    /// lost, the error is the store's.
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

impl Settlement {
    /// Completes the claim after a service has had this effect, now or under an earlier claim.
    async fn complete(
        &self,
        store: &dyn IdempotencyStore,
        written: &Entry,
    ) -> Result<Response, BoxError> {
        self.probe.pass(Point::Uncommitted).await;
        // A receipt has to be that of the effect that happened; an answer that does not depend on
        // the worker stays.
        let response = match self.response == self.entry.response() {
            true => written.response(),
            false => self.response.clone(),
        };
        store.complete(&self.claim, &response, RETENTION).await?;
        Ok(response)
    }
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

impl Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location").finish_non_exhaustive()
    }
}

/// A ledger, and the store in front of it: the ledger's own, or a cache before that.
///
/// A transaction does not notify the cache, and need not: the first duplicate finds the record in
/// the database and stores it in the cache.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn IdempotencyStore>,
    pub(crate) backend: Box<dyn Backend>,
    #[cfg(feature = "redis")]
    cache: Option<(idem_stores::Redis, String)>,
}

impl Opened {
    /// Returns the products and their versions.
    pub(crate) async fn product(&self) -> Result<String, BoxError> {
        let product = self.backend.product().await?;
        #[cfg(feature = "redis")]
        if let Some((cache, _)) = &self.cache {
            return Ok(format!("{product} behind {}", named(cache).await?));
        }
        Ok(product)
    }

    /// Removes records and ledger.
    pub(crate) async fn remove(&self) -> Result<(), BoxError> {
        self.backend.remove().await?;
        #[cfg(feature = "redis")]
        if let Some((cache, namespace)) = &self.cache {
            idem_stores::Adapter::destroy(cache, namespace).await?;
        }
        Ok(())
    }
}

/// Returns name and version of a server's product.
#[cfg(feature = "server")]
async fn named(server: &impl idem_stores::Adapter) -> Result<String, BoxError> {
    let (name, version) = server.product().await?;
    Ok(format!("{name} {version}"))
}

/// Opens the store that the URL names, with or without a cache in front of it.
pub(crate) async fn open(location: &Location) -> Result<Opened, Stop> {
    let Some((cache, database)) = tiers(&location.url) else {
        let backend = open_one(location).await?;
        return Ok(Opened {
            store: backend.store(),
            backend,
            #[cfg(feature = "redis")]
            cache: None,
        });
    };
    #[cfg(not(feature = "redis"))]
    {
        let _ = (cache, database);
        Err(not_built("redis"))
    }
    #[cfg(feature = "redis")]
    {
        let url = database.to_owned();
        let backend = open_one(&Location {
            url,
            ..location.clone()
        })
        .await?;
        let server = idem_stores::Redis::new(cache);
        let cache = server.cache(&location.namespace).or_stop("--store")?;
        Ok(Opened {
            store: Arc::new(idem_hybrid::HybridStore::new(cache, backend.store())),
            backend,
            cache: Some((server, location.namespace.clone())),
        })
    }
}

async fn open_one(location: &Location) -> Result<Box<dyn Backend>, Stop> {
    let scheme = location.url.split(':').next().unwrap_or_default();
    let opened: Result<Box<dyn Backend>, BoxError> = match feature(&location.url) {
        Some("sqlite") => sqlite::Sqlite::boxed(location).await,
        Some("foreign") => foreign::Foreign::boxed(location).await,
        #[cfg(feature = "postgres")]
        Some("postgres") => postgres::Postgres::boxed(location).await,
        #[cfg(feature = "mysql")]
        Some("mysql") => mysql::MySql::boxed(location).await,
        #[cfg(feature = "mssql")]
        Some("mssql") => mssql::Mssql::boxed(location),
        #[cfg(feature = "mongo")]
        Some("mongo") => mongo::Mongo::boxed(location).await,
        #[cfg(feature = "redis")]
        Some("redis") => redis::Redis::boxed(location).await,
        Some(missing) => return Err(not_built(missing)),
        None => {
            return Err(Stop::new(format!(
                "--store: `{scheme}` is no store that this program knows; give sqlite:PATH, \
                 postgres://USER@HOST:PORT/DATABASE, mysql://USER:PASSWORD@HOST:PORT/DATABASE, \
                 mssql://USER:PASSWORD@HOST:PORT/DATABASE, mongodb://HOST:PORT, redis://HOST:PORT, \
                 or hybrid+redis://HOST:PORT+DATABASE where DATABASE is one of the first five"
            )));
        }
    };
    let shown = without_credentials(&location.url);
    opened.or_stop(format!("--store: {shown} cannot be opened"))
}

/// Returns the error of a program that is built without this store.
fn not_built(feature: &str) -> Stop {
    Stop::new(format!(
        "--store: this program is built without the feature `{feature}`; add it, as in \
         `cargo run -p idem-storm --features {feature} -- --store URL`"
    ))
}
