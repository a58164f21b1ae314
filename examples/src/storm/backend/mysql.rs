//! MySQL and MariaDB, also as a Galera cluster: records and ledger in a database for each run.

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore, Response};
use idem_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use idem_mysql::sqlx::{AssertSqlSafe, Connection, Error, Executor, Row, query, raw_sql};
use idem_mysql::{Config, MySqlStore, Transaction, Transactions};
use std::str::FromStr;
use std::sync::Arc;

use super::{Backend, Location, RETENTION, SERVER_TIMEOUT, Settlement};
use crate::storm::entry::Entry;
use crate::storm::point::Point;
use crate::storm::stop::Stop;
use crate::storm::url::nodes;

#[derive(Debug)]
pub(crate) struct MySql {
    store: MySqlStore,
    database: String,
}

impl MySql {
    /// Opens the store. Several URLs, separated by commas, are the nodes of one Galera cluster:
    /// each process uses one of them.
    pub(crate) async fn open(location: &Location) -> Result<Self, Stop> {
        let nodes = nodes(&location.url);
        let node = nodes[rand::random_range(0..nodes.len())];
        let options = MySqlConnectOptions::from_str(node)
            .map_err(|error| Stop::because("--store: the URL cannot be read", &error))?;
        reach(&options).await?;
        let is_cluster = nodes.len() > 1;
        let pool = MySqlPoolOptions::new()
            .max_connections(location.connections)
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if is_cluster {
                        // A delivery may come to another node than the one before.
                        connection
                            .execute("SET SESSION wsrep_sync_wait = 7")
                            .await?;
                    }
                    Ok(())
                })
            })
            .connect_lazy_with(options);
        let config = Config::new()
            .with_database(&location.namespace)
            .map_err(|error| Stop::because("--store", &error))?;
        Ok(Self {
            store: MySqlStore::with_config(pool, config),
            database: location.namespace.clone(),
        })
    }

    /// Writes the contents of one transaction: the effect, and the answer for every later delivery.
    async fn write(
        &self,
        transaction: &mut Transaction,
        settlement: &Settlement,
    ) -> Result<(), BoxError> {
        let Settlement {
            claim,
            entry,
            response,
            probe,
        } = settlement;
        insert(transaction, &self.database, entry).await?;
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
async fn reach(options: &MySqlConnectOptions) -> Result<(), Stop> {
    let server = format!(
        "--store: MySQL at {}:{}",
        options.get_host(),
        options.get_port()
    );
    let away = format!("{server} cannot be reached; is it running, and is the URL right?");
    match tokio::time::timeout(SERVER_TIMEOUT, MySqlConnection::connect_with(options)).await {
        Ok(Ok(connection)) => {
            // An error of closing does not matter.
            let _ = connection.close().await;
            Ok(())
        }
        Ok(Err(error @ Error::Database(_))) => {
            let refused = "refuses the connection; check user, password and database in the URL";
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
    connection: &mut MySqlConnection,
    database: &str,
    entry: &Entry,
) -> Result<(), BoxError> {
    let sql = format!(
        "INSERT INTO {database}.ledger (request, fingerprint, token, attempts, delivery, worker)
         VALUES (?, ?, ?, ?, ?, ?)"
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
impl Backend for MySql {
    fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::new(self.store.clone())
    }

    async fn product(&self) -> Result<String, BoxError> {
        let row = query("SELECT VERSION()")
            .fetch_one(self.store.pool())
            .await?;
        let version: String = row.try_get(0)?;
        let number = version.split('-').next().unwrap_or_default();
        let product = if version.contains("MariaDB") {
            "MariaDB"
        } else {
            "MySQL"
        };
        Ok(format!("{product} {number}"))
    }

    async fn create(&self) -> Result<(), BoxError> {
        self.store.migrate().await?;
        // The key is not unique: a second effect has to be visible, not refused.
        let database = &self.database;
        self.run(format!(
            "CREATE TABLE IF NOT EXISTS {database}.ledger (
                n BIGINT AUTO_INCREMENT PRIMARY KEY, request VARCHAR(600) CHARACTER SET utf8mb4 NOT NULL,
                fingerprint VARCHAR(200) NOT NULL, token BIGINT NOT NULL, attempts BIGINT NOT NULL,
                delivery BIGINT NOT NULL, worker VARCHAR(200) NOT NULL) ENGINE = InnoDB"
        ))
        .await
    }

    async fn remove(&self) -> Result<(), BoxError> {
        let database = &self.database;
        self.run(format!("DROP DATABASE IF EXISTS {database}"))
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
        insert(&mut connection, &self.database, entry).await
    }

    async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
        let sql = format!(
            "SELECT request, fingerprint, token, attempts, delivery, worker FROM {}.ledger ORDER BY n",
            self.database
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
