//! MySQL and MariaDB, also as a Galera cluster: records and ledger in a database for each run.

use async_trait::async_trait;
use idem_core::{BoxError, Claim, Response, Result as StoreResult};
use idem_mysql::sqlx::mysql::MySqlConnection;
use idem_mysql::sqlx::{Connection, MySqlPool};
use idem_mysql::{MySqlStore, Transaction, TransactionRetry, Transactions};
use idem_stores::{Adapter, ServerUrl};

use super::database::{Database, attempts};
use super::reach::reach;
use super::{Location, RETENTION, sql};
use crate::storm::entry::Entry;
use crate::storm::stop::Stop;

#[derive(Debug)]
pub(crate) struct MySql {
    adapter: idem_stores::MySql,
    store: MySqlStore,
    database: String,
}

impl MySql {
    /// Opens the store. Several URLs, separated by commas, are the nodes of one Galera cluster:
    /// each process uses one of them, and a delivery may come to another node than the one before.
    pub(crate) async fn open(location: &Location) -> Result<Self, Stop> {
        let url = ServerUrl::from(&*location.url);
        let nodes = url.nodes();
        let node = nodes[rand::random_range(0..nodes.len())];
        let adapter = idem_stores::MySql::new(node).with_pool(location.connections);
        let adapter = match nodes.len() {
            1 => adapter,
            _ => adapter.with_causal_reads(),
        };
        let options = adapter
            .options()
            .map_err(|error| Stop::because("--store: the URL cannot be read", &*error))?;
        let server = format!("MySQL at {}:{}", options.get_host(), options.get_port());
        let connect = async { Ok::<_, BoxError>(adapter.connect().await?.close().await?) };
        reach(&server, "user, password and database", connect).await?;
        let store = adapter.store(&location.namespace).await;
        Ok(Self {
            store: store.map_err(|error| Stop::because("--store", &*error))?,
            adapter,
            database: location.namespace.clone(),
        })
    }
}

sql::ledger!(idem_mysql, MySqlPool, MySqlConnection);
attempts!(TransactionRetry, Transaction);

#[async_trait]
impl Database for MySql {
    type Store = MySqlStore;
    type Attempts = TransactionRetry;

    fn store(&self) -> &MySqlStore {
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
        let database = &self.database;
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {database}.ledger (
                n BIGINT AUTO_INCREMENT PRIMARY KEY, request VARCHAR(600) CHARACTER SET utf8mb4 NOT NULL,
                fingerprint VARCHAR(200) NOT NULL, token BIGINT NOT NULL, attempts BIGINT NOT NULL,
                delivery BIGINT NOT NULL, worker VARCHAR(200) NOT NULL) ENGINE = InnoDB"
        );
        run(self.store.pool(), create).await
    }

    async fn remove(&self) -> Result<(), BoxError> {
        self.adapter.destroy(&self.database).await?;
        self.store.pool().close().await;
        Ok(())
    }

    fn attempts(&self) -> TransactionRetry {
        Transactions::new(self.store.pool().clone()).attempts()
    }

    async fn insert(&self, transaction: &mut Transaction, entry: &Entry) -> Result<(), BoxError> {
        let sql = format!(
            "INSERT INTO {}.ledger (request, fingerprint, token, attempts, delivery, worker)
             VALUES (?, ?, ?, ?, ?, ?)",
            self.database
        );
        insert(transaction, sql, entry).await
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
            "SELECT request, fingerprint, token, attempts, delivery, worker FROM {}.ledger ORDER BY n",
            self.database
        );
        entries(self.store.pool(), sql).await
    }
}
