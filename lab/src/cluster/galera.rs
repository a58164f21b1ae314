//! MariaDB Galera: three nodes, of which callers use one until it is lost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_mysql::sqlx::{self, AssertSqlSafe, Connection, MySqlConnection, Row};
use idem_mysql::{Config, MySqlStore};
use idem_servers::{Cluster, Options, start_private_cluster};

use super::group::{Group, Store};
use super::scene::eventually;

/// How long a caller waits for an answer: a lost node is evicted after two seconds or more.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How a node is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It is killed.
    Kill,
    /// It is paused for longer than the others wait for it.
    Stop,
    /// It is cut off from the others, and goes on answering callers.
    Cut,
}

/// Three nodes under callers.
pub(crate) struct Galera {
    cluster: Cluster,
    loss: Loss,
    /// The node that callers use.
    node: usize,
    /// The node that was lost.
    lost: Option<usize>,
}

impl Galera {
    /// Starts them, with the store's tables.
    pub(crate) async fn start(loss: Loss) -> Result<Self, BoxError> {
        let cluster = start_private_cluster("galera", &Options::new())?;
        let store = MySqlStore::connect(cluster.url(0), Config::new()).await?;
        store.migrate().await?;
        Ok(Self {
            cluster,
            loss,
            node: 0,
            lost: None,
        })
    }

    /// Lets a node hear the others no more. Waits until it knows that it is in a minority, and they
    /// go on without it.
    async fn cut_off(&self, node: usize) -> Result<(), BoxError> {
        isolate(self.cluster.url(node), true).await?;
        let others = (self.cluster.nodes() - 1).to_string();
        let next = self.cluster.url(self.after(node));
        eventually("the others go on without the node", || async {
            let size = status(next, "wsrep_cluster_size").await?;
            let alone = status(self.cluster.url(node), "wsrep_cluster_status").await?;
            Ok(size == others && alone == "non-Primary")
        })
        .await
    }

    fn after(&self, node: usize) -> usize {
        (node + 1) % self.cluster.nodes()
    }
}

/// The provider's own way to try a partition
/// (<https://galeracluster.com/documentation/html_docs_latest/documentation/galera-parameters.html>).
async fn isolate(url: &str, is_cut: bool) -> Result<(), BoxError> {
    let option = format!("gmcast.isolate={}", u8::from(is_cut));
    let sql = format!("SET GLOBAL wsrep_provider_options = '{option}'");
    let mut connection = MySqlConnection::connect(url).await?;
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}

/// A node that refuses statements answers this one.
async fn status(url: &str, name: &str) -> Result<String, BoxError> {
    let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let mut connection = MySqlConnection::connect(url).await?;
    let row = sqlx::raw_sql(AssertSqlSafe(sql))
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    Ok(row.try_get(1)?)
}

#[async_trait]
impl Group for Galera {
    fn product(&self) -> String {
        self.cluster.product().to_string()
    }

    fn settings(&self) -> String {
        "three nodes, wsrep_sync_wait=7".to_owned()
    }

    fn leader(&self) -> &str {
        self.cluster.url(self.node)
    }

    fn is_routed(&self) -> bool {
        true
    }

    async fn store(&self, url: &str) -> Result<Store, BoxError> {
        let config = Config::new().with_timeout(TIMEOUT).with_wsrep_sync_wait(7);
        Ok(Arc::new(MySqlStore::connect(url, config).await?))
    }

    async fn reader(&self, url: &str) -> Result<Store, BoxError> {
        self.store(url).await
    }

    async fn cut(&mut self) -> Result<(), BoxError> {
        Err("no node of Galera lags behind what it acknowledged".into())
    }

    async fn wait_for_waiting(&self) -> Result<(), BoxError> {
        Err("no commit of Galera waits for a node".into())
    }

    async fn show_waiting(&mut self) -> Result<usize, BoxError> {
        Err("no commit of Galera waits for a node".into())
    }

    async fn fail_over(&mut self) -> Result<String, BoxError> {
        let lost = self.node;
        match self.loss {
            Loss::Kill => self.cluster.kill(lost)?,
            Loss::Stop => self.cluster.freeze(lost)?,
            Loss::Cut => self.cut_off(lost).await?,
        }
        if self.loss != Loss::Cut {
            self.cluster.wait_for_size(self.cluster.nodes() - 1)?;
        }
        self.lost = Some(lost);
        self.node = self.after(lost);
        let [lost, used] = [lost, self.node].map(|node| self.cluster.url(node));
        let loss = match self.loss {
            Loss::Kill => "killed",
            Loss::Stop => "paused",
            Loss::Cut => "cut off",
        };
        Ok(format!("{lost} was {loss} and evicted, callers use {used}"))
    }

    async fn add_replica(&mut self) -> Result<(), BoxError> {
        match (self.lost.take(), self.loss) {
            (Some(lost), Loss::Kill) => Ok(self.cluster.restart(lost)?),
            (Some(lost), Loss::Stop) => {
                self.cluster.thaw(lost)?;
                // It finds out by itself that it was evicted, and joins again.
                Ok(self.cluster.wait_for_size(self.cluster.nodes())?)
            }
            (Some(lost), Loss::Cut) => {
                isolate(self.cluster.url(lost), false).await?;
                Ok(self.cluster.wait_for_size(self.cluster.nodes())?)
            }
            (None, _) => Ok(()),
        }
    }
}
