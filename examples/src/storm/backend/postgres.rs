//! PostgreSQL: records and ledger in a schema for each run.

use async_trait::async_trait;
use idem_core::{BoxError, Claim, Response, Result as StoreResult};
use idem_postgres::sqlx::{Connection, PgConnection, PgPool, PgTransaction};
use idem_postgres::{PostgresStore, TransactionRetry, Transactions};
use idem_stores::{Adapter, ServerUrl};

use super::database::{Database, attempts};
use super::reach::reach;
use super::{Location, RETENTION, sql};
use crate::storm::entry::Entry;
use crate::storm::stop::Stop;

#[derive(Debug)]
pub(crate) struct Postgres {
    adapter: idem_stores::Postgres,
    store: PostgresStore,
    schema: String,
}

impl Postgres {
    pub(crate) async fn open(location: &Location) -> Result<Self, Stop> {
        let url = ServerUrl::from(&*location.url).with("application_name", "idem-storm");
        let adapter = idem_stores::Postgres::new(url).with_pool(location.connections);
        let options = adapter
            .options()
            .map_err(|error| Stop::because("--store: the URL cannot be read", &*error))?;
        let server = format!(
            "PostgreSQL at {}:{}",
            options.get_host(),
            options.get_port()
        );
        let connect = async { Ok::<_, BoxError>(adapter.connect().await?.close().await?) };
        reach(&server, "role, password and database", connect).await?;
        let store = adapter.store(&location.namespace).await;
        Ok(Self {
            store: store.map_err(|error| Stop::because("--store", &*error))?,
            adapter,
            schema: location.namespace.clone(),
        })
    }
}

sql::ledger!(idem_postgres, PgPool, PgConnection);
attempts!(TransactionRetry, PgTransaction<'static>);

#[async_trait]
impl Database for Postgres {
    type Store = PostgresStore;
    type Attempts = TransactionRetry;

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn product(&self) -> Result<String, BoxError> {
        let (product, version) = self.adapter.product().await?;
        Ok(format!("{product} {version}"))
    }

    async fn migrate(&self) -> StoreResult<()> {
        self.store.migrate().await
    }

    async fn create_ledger(&self) -> Result<(), BoxError> {
        let schema = &self.schema;
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {schema}.ledger (
                n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL,
                fingerprint text NOT NULL, token bigint NOT NULL, attempts bigint NOT NULL,
                delivery bigint NOT NULL, worker text NOT NULL)"
        );
        run(self.store.pool(), create).await
    }

    async fn remove(&self) -> Result<(), BoxError> {
        self.adapter.destroy(&self.schema).await?;
        self.store.pool().close().await;
        Ok(())
    }

    fn attempts(&self) -> TransactionRetry {
        Transactions::new(self.store.pool().clone()).attempts()
    }

    async fn insert(
        &self,
        transaction: &mut PgTransaction<'static>,
        entry: &Entry,
    ) -> Result<(), BoxError> {
        let sql = format!(
            "INSERT INTO {}.ledger (key, fingerprint, token, attempts, delivery, worker)
             VALUES ($1, $2, $3, $4, $5, $6)",
            self.schema
        );
        insert(transaction, sql, entry).await
    }

    async fn complete(
        &self,
        transaction: &mut PgTransaction<'static>,
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
            "SELECT key, fingerprint, token, attempts, delivery, worker FROM {}.ledger ORDER BY n",
            self.schema
        );
        entries(self.store.pool(), sql).await
    }
}
