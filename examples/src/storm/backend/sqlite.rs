//! SQLite: records and ledger in one file, whose name the user gives. So nothing but the product is
//! shared with other tests, where each namespace is a folder.

use async_trait::async_trait;
use idem_core::{BoxError, Claim, Response, Result as StoreResult};
use idem_sqlite::sqlx::sqlite::SqliteConnection;
use idem_sqlite::sqlx::{SqlitePool, SqliteTransaction};
use idem_sqlite::{Config, SqliteStore, TransactionRetry, Transactions};
use idem_stores::Adapter;

use super::database::{Database, attempts};
use super::{Location, RETENTION, sql};
use crate::storm::entry::Entry;
use crate::storm::stop::Stop;

#[derive(Debug)]
pub(crate) struct Sqlite {
    store: SqliteStore,
    ledger: String,
}

impl Sqlite {
    pub(crate) async fn open(location: &Location) -> Result<Self, Stop> {
        if location.url.contains(":memory:") || location.url.contains("mode=memory") {
            return Err(Stop::new(
                "--store: a SQLite database in memory belongs to one process, and the storm is several; \
                 give a file, sqlite:PATH",
            ));
        }
        let namespace = &location.namespace;
        let opened = async {
            let config = Config::new().with_table(format!("{namespace}_records"))?;
            SqliteStore::connect(&location.url, config).await
        };
        let store = opened.await.map_err(|error| {
            Stop::because(
                format!("--store: `{}` cannot be opened", location.url),
                &error,
            )
        })?;
        Ok(Self {
            store,
            ledger: format!("{namespace}_ledger"),
        })
    }
}

sql::ledger!(idem_sqlite, SqlitePool, SqliteConnection);
attempts!(TransactionRetry, SqliteTransaction<'static>);

#[async_trait]
impl Database for Sqlite {
    type Store = SqliteStore;
    type Attempts = TransactionRetry;

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    async fn product(&self) -> Result<String, BoxError> {
        let (product, version) = idem_stores::Sqlite.product().await?;
        Ok(format!("{product} {version}"))
    }

    async fn migrate(&self) -> StoreResult<()> {
        self.store.migrate().await
    }

    async fn create_ledger(&self) -> Result<(), BoxError> {
        let ledger = &self.ledger;
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {ledger} (
                n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, fingerprint TEXT NOT NULL,
                token INTEGER NOT NULL, attempts INTEGER NOT NULL, delivery INTEGER NOT NULL,
                worker TEXT NOT NULL)"
        );
        run(self.store.pool(), create).await
    }

    async fn remove(&self) -> Result<(), BoxError> {
        let (records, ledger) = (self.store.config().table(), &self.ledger);
        let drop = format!(
            "DROP TABLE IF EXISTS {ledger}; DROP TABLE IF EXISTS {records}; \
             DROP TABLE IF EXISTS {records}_watermarks"
        );
        run(self.store.pool(), drop).await?;
        self.store.pool().close().await;
        Ok(())
    }

    fn attempts(&self) -> TransactionRetry {
        Transactions::new(self.store.pool().clone()).attempts()
    }

    async fn insert(
        &self,
        transaction: &mut SqliteTransaction<'static>,
        entry: &Entry,
    ) -> Result<(), BoxError> {
        let sql = format!(
            "INSERT INTO {} (key, fingerprint, token, attempts, delivery, worker)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            self.ledger
        );
        insert(transaction, sql, entry).await
    }

    async fn complete(
        &self,
        transaction: &mut SqliteTransaction<'static>,
        claim: &Claim,
        response: &Response,
    ) -> StoreResult<()> {
        let store = &self.store;
        store
            .complete_in(transaction, claim, response, RETENTION)
            .await
    }

    async fn entries(&self) -> Result<Vec<Entry>, BoxError> {
        let sql = format!(
            "SELECT key, fingerprint, token, attempts, delivery, worker FROM {} ORDER BY n",
            self.ledger
        );
        entries(self.store.pool(), sql).await
    }
}
