//! PostgreSQL: records and ledger in a schema for each run.

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore, Response};
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use idem_postgres::sqlx::{AssertSqlSafe, Connection, Error, PgTransaction, Row, query, raw_sql};
use idem_postgres::{Config, PostgresStore, Transactions};
use std::str::FromStr;
use std::sync::Arc;

use super::{Backend, Location, RETENTION, SERVER_TIMEOUT, Settlement};
use crate::storm::entry::Entry;
use crate::storm::point::Point;
use crate::storm::stop::Stop;

#[derive(Debug)]
pub(crate) struct Postgres {
    store: PostgresStore,
    schema: String,
}

impl Postgres {
    pub(crate) async fn open(location: &Location) -> Result<Self, Stop> {
        let options = PgConnectOptions::from_str(&location.url)
            .map_err(|error| Stop::because("--store: the URL cannot be read", &error))?
            .application_name("idem-storm");
        reach(&options).await?;
        let pool = PgPoolOptions::new()
            .max_connections(location.connections)
            .test_before_acquire(false)
            .connect_lazy_with(options);
        let config = Config::new()
            .with_schema(&location.namespace)
            .map_err(|error| Stop::because("--store", &error))?;
        Ok(Self {
            store: PostgresStore::with_config(pool, config),
            schema: location.namespace.clone(),
        })
    }

    /// Writes the contents of one transaction: the effect, and the answer for every later delivery.
    async fn write(
        &self,
        transaction: &mut PgTransaction<'_>,
        settlement: &Settlement,
    ) -> Result<(), BoxError> {
        let Settlement {
            claim,
            entry,
            response,
            probe,
        } = settlement;
        insert(transaction, &self.schema, entry).await?;
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

/// Connects once, because a pool treats a refused connection as a starting server and retries for
/// half a minute.
async fn reach(options: &PgConnectOptions) -> Result<(), Stop> {
    let server = format!(
        "--store: PostgreSQL at {}:{}",
        options.get_host(),
        options.get_port()
    );
    let away = format!("{server} cannot be reached; is it running, and is the URL right?");
    match tokio::time::timeout(SERVER_TIMEOUT, PgConnection::connect_with(options)).await {
        Ok(Ok(connection)) => {
            // An error of closing does not matter.
            let _ = connection.close().await;
            Ok(())
        }
        Ok(Err(error @ Error::Database(_))) => {
            let refused = "refuses the connection; check role, password and database in the URL";
            Err(Stop::because(format!("{server} {refused}"), &error))
        }
        Ok(Err(error)) => Err(Stop::because(away, &error)),
        Err(_) => Err(Stop::new(format!(
            "{away} (no answer within {} s)",
            SERVER_TIMEOUT.as_secs()
        ))),
    }
}

async fn insert(
    connection: &mut PgConnection,
    schema: &str,
    entry: &Entry,
) -> Result<(), BoxError> {
    let sql = format!(
        "INSERT INTO {schema}.ledger (key, fingerprint, token, attempts, delivery, worker)
         VALUES ($1, $2, $3, $4, $5, $6)"
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
impl Backend for Postgres {
    fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::new(self.store.clone())
    }

    async fn product(&self) -> Result<String, BoxError> {
        let row = query("SHOW server_version")
            .fetch_one(self.store.pool())
            .await?;
        let version: String = row.try_get(0)?;
        let number = version.split(' ').next().unwrap_or_default();
        Ok(format!("PostgreSQL {number}"))
    }

    async fn create(&self) -> Result<(), BoxError> {
        self.store.migrate().await?;
        // The key is not unique: a second effect has to be visible, not refused.
        let schema = &self.schema;
        self.run(format!(
            "CREATE TABLE IF NOT EXISTS {schema}.ledger (
                n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL,
                fingerprint text NOT NULL, token bigint NOT NULL, attempts bigint NOT NULL,
                delivery bigint NOT NULL, worker text NOT NULL)"
        ))
        .await
    }

    async fn remove(&self) -> Result<(), BoxError> {
        let schema = &self.schema;
        self.run(format!(
            "SET lock_timeout = '20s'; SET client_min_messages = warning; DROP SCHEMA IF EXISTS {schema} CASCADE"
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
        insert(&mut connection, &self.schema, entry).await
    }

    async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
        let sql = format!(
            "SELECT key, fingerprint, token, attempts, delivery, worker FROM {}.ledger ORDER BY n",
            self.schema
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
