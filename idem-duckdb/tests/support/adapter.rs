//! [`DuckDb`], the adapter of the suite.
//!
//! It is here and not in `idem-stores` like the others: as a feature of that package it would link
//! DuckDB's library into the tests of every other backend, on machines without it too.

use std::sync::OnceLock;
use std::time::Duration;

use idem_conformance::{CallerTransaction, secrets::MARK};
use idem_core::{BoxError, Claim, ClaimOutcome, ClaimRequest, Key, Response, Result, async_trait};
use idem_duckdb::{Config, DuckDbPool, DuckDbStore, DuckDbTransaction, duckdb};
use idem_stores::{Adapter, Begun, random_name};

use super::file;

/// The file of the first namespace, as the store has made it. The others are copies.
static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();

/// Files. Each namespace is a folder with one database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DuckDb;

impl DuckDb {
    /// The name of the file in its folder.
    pub(crate) const FILE: &str = "idem.duckdb";
}

#[async_trait]
impl Adapter for DuckDb {
    type Store = DuckDbStore;

    async fn product(&self) -> Result<(String, String), BoxError> {
        let pool = DuckDbPool::open(":memory:", &Config::new()).await?;
        let version = pool.run(|connection| connection.version()).await?;
        let version = version.trim_start_matches('v').to_owned();
        Ok(("DuckDB".to_owned(), version))
    }

    fn new_name(&self) -> String {
        std::env::temp_dir()
            .join(random_name())
            .display()
            .to_string()
    }

    async fn create(&self, folder: &str) -> Result<(), BoxError> {
        std::fs::create_dir(folder)?;
        if let Some(empty) = EMPTY.get() {
            return Ok(std::fs::write(file(folder), empty)?);
        }
        let store = self.store(folder).await?;
        store.migrate().await?;
        // The last pool writes the log into the file.
        store.close().await;
        // Another case may have come first.
        let _ = EMPTY.set(std::fs::read(file(folder))?);
        Ok(())
    }

    async fn store(&self, folder: &str) -> Result<DuckDbStore, BoxError> {
        Ok(DuckDbStore::connect(file(folder), Config::new()).await?)
    }

    async fn destroy(&self, folder: &str) -> Result<(), BoxError> {
        // A thread may close the file at this moment, and make another beside it.
        for _ in 0..100 {
            match std::fs::remove_dir_all(folder) {
                Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                removed => return Ok(removed?),
            }
        }
        Ok(std::fs::remove_dir_all(folder)?)
    }

    async fn begin(&self, folder: &str) -> Result<Option<Box<dyn CallerTransaction>>, BoxError> {
        let store = self.store(folder).await?;
        let transaction = store.pool().begin().await?;
        Ok(Some(Box::new(Caller(Begun { store, transaction }))))
    }

    async fn damage(&self, folder: &str, key: &Key) -> Result<bool, BoxError> {
        let store = self.store(folder).await?;
        let key = key.path().into_bytes();
        let update = "UPDATE idem_records SET result = ? WHERE key = ?";
        let damage = move |connection: &duckdb::Connection| {
            connection.execute(update, duckdb::params![MARK.as_bytes(), key])
        };
        Ok(store.pool().run(damage).await? == 1)
    }
}

/// A caller's open transaction, and the store for it.
struct Caller(Begun<DuckDbStore, DuckDbTransaction>);

#[async_trait]
impl CallerTransaction for Caller {
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let Begun { store, transaction } = &mut self.0;
        store.claim_in(transaction, request).await
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let Begun { store, transaction } = &mut self.0;
        let completed = store.complete_in(transaction, claim, response, retention);
        completed.await
    }

    async fn commit(self: Box<Self>) -> Result<(), BoxError> {
        Ok(self.0.transaction.commit().await?)
    }

    async fn rollback(self: Box<Self>) -> Result<(), BoxError> {
        Ok(self.0.transaction.rollback().await?)
    }
}
