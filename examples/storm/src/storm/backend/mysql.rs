//! MySQL and MariaDB, also as a Galera cluster: records and ledger in a database for each run.

use idem_core::BoxError;
use idem_mysql::MySqlStore;
use idem_mysql::sqlx::MySqlConnection;
use idem_stores::{Adapter, ServerUrl};

use super::database::{on_a_server, sql_database};
use super::{Backend, Location};

#[derive(Debug)]
pub(super) struct MySql {
    adapter: idem_stores::MySql,
    store: MySqlStore,
    namespace: String,
    ledger: String,
}

impl MySql {
    /// Opens the store. Several URLs, separated by commas, are the nodes of one Galera cluster:
    /// each process uses one of them, and a delivery may come to another node than the one before.
    pub(super) async fn boxed(location: &Location) -> Result<Box<dyn Backend>, BoxError> {
        let url = ServerUrl::from(&*location.url);
        let nodes = url.nodes();
        let node = nodes[rand::random_range(0..nodes.len())];
        let mut adapter = idem_stores::MySql::new(node).with_pool(location.connections);
        if nodes.len() > 1 {
            adapter = adapter.with_causal_reads();
        }
        let namespace = location.namespace.clone();
        Ok(Box::new(Self {
            store: adapter.store(&namespace).await?,
            adapter,
            ledger: format!("{namespace}.ledger"),
            namespace,
        }))
    }
}

on_a_server!(MySql);
sql_database!(
    MySql,
    idem_mysql,
    MySqlConnection,
    "BIGINT AUTO_INCREMENT",
    "TEXT CHARACTER SET utf8mb4",
    "?"
);
