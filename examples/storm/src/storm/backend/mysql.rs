//! MySQL and MariaDB, also as a Galera cluster: records and ledger in a database for each run.

use idem_core::BoxError;
use idem_mysql::MySqlStore;
use idem_mysql::sqlx::{Connection, MySqlConnection};
use idem_stores::{Adapter, ServerUrl};

use super::Location;
use super::database::sql_database;
use super::server::reach;
use crate::storm::stop::{OrStop, Stop};

#[derive(Debug)]
pub(super) struct MySql {
    adapter: idem_stores::MySql,
    store: MySqlStore,
    database: String,
    ledger: String,
}

impl MySql {
    /// Opens the store. Several URLs, separated by commas, are the nodes of one Galera cluster:
    /// each process uses one of them, and a delivery may come to another node than the one before.
    pub(super) async fn open(location: &Location) -> Result<Self, Stop> {
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
            .or_stop("--store: the URL cannot be read")?;
        let (host, port) = (options.get_host(), options.get_port());
        let connect = async { Ok::<_, BoxError>(adapter.connect().await?.close().await?) };
        let server = format!("MySQL at {host}:{port}");
        reach(&server, "user, password and database", connect).await?;
        let database = location.namespace.clone();
        Ok(Self {
            store: adapter.store(&database).await.or_stop("--store")?,
            adapter,
            ledger: format!("{database}.ledger"),
            database,
        })
    }

    async fn product(&self) -> Result<String, BoxError> {
        let (product, version) = self.adapter.product().await?;
        Ok(format!("{product} {version}"))
    }

    async fn remove_all(&self) -> Result<(), BoxError> {
        self.adapter.destroy(&self.database).await?;
        self.store.pool().close().await;
        Ok(())
    }
}

sql_database!(
    MySql,
    idem_mysql,
    MySqlConnection,
    "BIGINT AUTO_INCREMENT",
    "TEXT CHARACTER SET utf8mb4",
    "?"
);
