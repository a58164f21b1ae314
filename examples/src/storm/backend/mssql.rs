//! SQL Server and compatible servers: records and ledger in a schema for each run.

use async_trait::async_trait;
use idem_core::{BoxError, Claim, Response, Result as StoreResult};
use idem_mssql::tiberius::{Query, Row};
use idem_mssql::{Config, Manager, MssqlStore, Pool, Transaction, TransactionRetry, Transactions};

use super::database::{Database, attempts};
use super::reach::reach;
use super::{Location, RETENTION, SERVER_TIMEOUT};
use crate::storm::entry::Entry;
use crate::storm::stop::Stop;
use crate::storm::url::without_credentials;

#[derive(Debug)]
pub(crate) struct Mssql {
    store: MssqlStore,
    schema: String,
}

impl Mssql {
    pub(crate) async fn open(location: &Location) -> Result<Self, Stop> {
        let manager = Manager::from_url(&location.url)
            .map_err(|error| Stop::because("--store: the URL cannot be read", &error))?
            .with_connect_timeout(SERVER_TIMEOUT);
        let pool = Pool::builder(manager)
            .max_size(location.connections as usize)
            .build()
            .map_err(|error| Stop::because("--store", &error))?;
        let config = Config::new()
            .with_schema(&location.namespace)
            .map_err(|error| Stop::because("--store", &error))?;
        let store = MssqlStore::with_config(pool, config);
        let server = format!("SQL Server at {}", without_credentials(&location.url));
        // Boxed, because it is deep.
        let connect = Box::pin(store.pool().get());
        drop(reach(&server, "user and password", connect).await?);
        Ok(Self {
            store,
            schema: location.namespace.clone(),
        })
    }

    async fn run(&self, sql: &str) -> Result<Vec<Row>, BoxError> {
        let mut connection = self.store.pool().get().await?;
        let results = connection.run_script(sql).await?;
        Ok(results.into_iter().flatten().collect())
    }
}

attempts!(TransactionRetry, Transaction);

fn entry(row: &Row) -> Result<Entry, BoxError> {
    let text = |column: usize| -> Result<String, BoxError> {
        let text: Option<&str> = row.try_get(column)?;
        Ok(text.ok_or("NULL in the ledger")?.to_owned())
    };
    let number = |column: usize| -> Result<i64, BoxError> {
        Ok(row.try_get(column)?.ok_or("NULL in the ledger")?)
    };
    Ok(Entry {
        key: text(0)?,
        fingerprint: text(1)?,
        token: number(2)?,
        attempts: number(3)?,
        delivery: number(4)?,
        worker: text(5)?,
    })
}

#[async_trait]
impl Database for Mssql {
    type Store = MssqlStore;
    type Attempts = TransactionRetry;

    fn store(&self) -> &MssqlStore {
        &self.store
    }

    async fn product(&self) -> Result<String, BoxError> {
        let rows = self.run("SELECT @@VERSION;").await?;
        let version = rows.first().and_then(|row| row.get::<&str, _>(0));
        // `Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64) …`, and more lines.
        let line = version.unwrap_or_default().lines().next();
        Ok(line.unwrap_or_default().trim().to_owned())
    }

    async fn migrate(&self) -> StoreResult<()> {
        self.store.migrate().await
    }

    async fn create_ledger(&self) -> Result<(), BoxError> {
        let schema = &self.schema;
        self.run(&format!(
            "CREATE TABLE [{schema}].[ledger] (
                n bigint IDENTITY PRIMARY KEY, [key] nvarchar(300) NOT NULL, fingerprint nvarchar(100) NOT NULL,
                token bigint NOT NULL, attempts bigint NOT NULL, delivery bigint NOT NULL,
                worker nvarchar(40) NOT NULL);"
        ))
        .await
        .map(drop)
    }

    async fn remove(&self) -> Result<(), BoxError> {
        let schema = &self.schema;
        let tables = [
            "ledger",
            "idem_records",
            "idem_records_watermarks",
            "idem_records_version",
        ];
        let drop = tables.map(|table| format!("DROP TABLE IF EXISTS [{schema}].[{table}];\n"));
        self.run(&format!(
            "SET LOCK_TIMEOUT 20000;\n{}DROP SCHEMA IF EXISTS [{schema}];",
            drop.concat()
        ))
        .await?;
        self.store.pool().close();
        Ok(())
    }

    fn attempts(&self) -> TransactionRetry {
        Transactions::new(self.store.pool().clone()).attempts()
    }

    async fn insert(&self, transaction: &mut Transaction, entry: &Entry) -> Result<(), BoxError> {
        let mut query = Query::new(format!(
            "INSERT INTO [{}].[ledger] ([key], fingerprint, token, attempts, delivery, worker)
             VALUES (@P1, @P2, @P3, @P4, @P5, @P6);",
            self.schema
        ));
        query.bind(entry.key.clone());
        query.bind(entry.fingerprint.clone());
        query.bind(entry.token);
        query.bind(entry.attempts);
        query.bind(entry.delivery);
        query.bind(entry.worker.clone());
        query.execute(transaction).await?;
        Ok(())
    }

    async fn complete(
        &self,
        transaction: &mut Transaction,
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
            "SELECT [key], fingerprint, token, attempts, delivery, worker FROM [{}].[ledger] ORDER BY n;",
            self.schema
        );
        self.run(&sql).await?.iter().map(entry).collect()
    }
}
