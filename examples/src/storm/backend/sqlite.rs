//! SQLite: records and ledger in one file.

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore, Response};
use idem_sqlite::sqlx::sqlite::SqliteConnection;
use idem_sqlite::sqlx::{AssertSqlSafe, Row, SqliteTransaction, query, raw_sql};
use idem_sqlite::{Config, SqliteStore, Transactions};
use std::sync::Arc;

use super::{Backend, Location, RETENTION, Settlement};
use crate::storm::entry::Entry;
use crate::storm::point::Point;
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

    /// Writes the contents of one transaction: the effect, and the answer for every later delivery.
    async fn write(
        &self,
        transaction: &mut SqliteTransaction<'_>,
        settlement: &Settlement,
    ) -> Result<(), BoxError> {
        let Settlement {
            claim,
            entry,
            response,
            probe,
        } = settlement;
        insert(transaction, &self.ledger, entry).await?;
        self.store
            .complete_in(transaction, claim, response, RETENTION)
            .await?;
        probe.pass(Point::Uncommitted).await;
        Ok(())
    }

    async fn run(&self, sql: String) -> Result<(), BoxError> {
        raw_sql(AssertSqlSafe(sql))
            .execute(self.store.pool())
            .await?;
        Ok(())
    }
}

async fn insert(
    connection: &mut SqliteConnection,
    ledger: &str,
    entry: &Entry,
) -> Result<(), BoxError> {
    let sql = format!(
        "INSERT INTO {ledger} (key, fingerprint, token, attempts, delivery, worker)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
    );
    query(AssertSqlSafe(sql))
        .bind(&entry.key)
        .bind(&entry.fingerprint)
        .bind(entry.token)
        .bind(entry.attempts)
        .bind(entry.delivery)
        .bind(&entry.worker)
        .execute(connection)
        .await?;
    Ok(())
}

#[async_trait]
impl Backend for Sqlite {
    fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::new(self.store.clone())
    }

    async fn product(&self) -> Result<String, BoxError> {
        let row = query("SELECT sqlite_version()")
            .fetch_one(self.store.pool())
            .await?;
        Ok(format!("SQLite {}", row.try_get::<String, _>(0)?))
    }

    async fn create(&self) -> Result<(), BoxError> {
        self.store.migrate().await?;
        // The key is not unique: a second effect has to be visible, not refused.
        let ledger = &self.ledger;
        self.run(format!(
            "CREATE TABLE IF NOT EXISTS {ledger} (
                n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, fingerprint TEXT NOT NULL,
                token INTEGER NOT NULL, attempts INTEGER NOT NULL, delivery INTEGER NOT NULL,
                worker TEXT NOT NULL)"
        ))
        .await
    }

    async fn remove(&self) -> Result<(), BoxError> {
        let (records, ledger) = (self.store.config().table(), &self.ledger);
        self.run(format!(
            "DROP TABLE IF EXISTS {ledger}; DROP TABLE IF EXISTS {records}; \
             DROP TABLE IF EXISTS {records}_watermarks"
        ))
        .await?;
        self.store.pool().close().await;
        Ok(())
    }

    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError> {
        let transactions = Transactions::new(self.store.pool().clone());
        let mut attempts = transactions.attempts();
        loop {
            let mut transaction = attempts.begin().await?;
            let result = self.write(&mut transaction, settlement).await;
            if let Some(result) = attempts.finish(transaction, result).await {
                return result.map(|()| settlement.response.clone());
            }
        }
    }

    async fn append(&self, entry: &Entry) -> Result<(), BoxError> {
        let mut connection = self.store.pool().acquire().await?;
        insert(&mut connection, &self.ledger, entry).await
    }

    async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
        let sql = format!(
            "SELECT key, fingerprint, token, attempts, delivery, worker FROM {} ORDER BY n",
            self.ledger
        );
        let rows = query(AssertSqlSafe(sql))
            .fetch_all(self.store.pool())
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Entry {
                    key: row.try_get(0)?,
                    fingerprint: row.try_get(1)?,
                    token: row.try_get(2)?,
                    attempts: row.try_get(3)?,
                    delivery: row.try_get(4)?,
                    worker: row.try_get(5)?,
                })
            })
            .collect()
    }
}
