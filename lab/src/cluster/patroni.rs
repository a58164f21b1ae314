//! PostgreSQL with a standby, of which Patroni decides who leads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use idem_core::BoxError;
use idem_postgres::{Config, PostgresStore};
use idem_servers::{Cluster, Instance, Options, Patroni, start_private, start_private_cluster};
use tokio::task::block_in_place;

use super::group::{Group, Store};
use super::postgres::query;
use super::scene::eventually;

/// How long a caller waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How long a standby must not lead after the leader's death: some of its rounds longer than the
/// leader's lock lasts.
const NO_LEADER: Duration = Duration::from_secs(Patroni::TTL + 8);

/// How the leader is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Managed {
    /// With `synchronous_mode`, while the standby follows, which is promoted.
    Synchronous,
    /// The same, while the leader goes on without its standby. That comes back and must not lead,
    /// until the leader comes back.
    Alone,
    /// Without `synchronous_mode`, while the standby is down, which comes back and is promoted.
    Asynchronous,
}

impl Managed {
    fn is_synchronous(self) -> bool {
        self != Self::Asynchronous
    }
}

/// A leader and its standby, each under a Patroni, and their etcd.
pub(crate) struct Nodes {
    // Dropped first: a Patroni without its etcd demotes the leader.
    cluster: Cluster,
    _etcd: Instance,
    managed: Managed,
    leader: usize,
}

impl Nodes {
    /// Starts them, with the store's tables.
    pub(crate) async fn start(managed: Managed) -> Result<Self, BoxError> {
        let etcd = start_private("etcd", &Options::new())?;
        let options = Options::new()
            .with_upstream(etcd.url())
            .with_setting("synchronous_mode", managed.is_synchronous().to_string());
        let cluster = start_private_cluster("patroni", &options)?;
        let leader = Patroni::leader(&cluster).ok_or("no node leads")?;
        let store = PostgresStore::connect(cluster.url(leader), Config::new()).await?;
        store.migrate().await?;
        Ok(Self {
            cluster,
            _etcd: etcd,
            managed,
            leader,
        })
    }

    fn standby(&self) -> usize {
        1 - self.leader
    }

    /// Waits until this node leads, as Patroni says.
    async fn wait_for_leader(&self, node: usize) -> Result<(), BoxError> {
        eventually("Patroni makes a node lead", || async {
            Ok(Patroni::leader(&self.cluster) == Some(node))
        })
        .await
    }

    /// Checks that no node leads, although the standby runs.
    async fn wait_in_vain(&self, since: Instant) -> Result<(), BoxError> {
        let standby = self.cluster.url(self.standby());
        eventually("the standby answers", || async {
            Ok(query(standby, "SELECT 1 WHERE pg_is_in_recovery()").await? == 1)
        })
        .await?;
        while since.elapsed() < NO_LEADER {
            if Patroni::leader(&self.cluster).is_some() {
                return Err("a standby that lacks commits was promoted".into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        match query(standby, "SELECT 1 WHERE pg_is_in_recovery()").await? {
            1 => Ok(()),
            _ => Err("the standby takes writes".into()),
        }
    }
}

#[async_trait]
impl Group for Nodes {
    fn product(&self) -> String {
        self.cluster.product().to_string()
    }

    fn settings(&self) -> String {
        let mode = self.managed.is_synchronous();
        format!("synchronous_mode: {mode}, ttl: {}", Patroni::TTL)
    }

    fn leader(&self) -> &str {
        self.cluster.url(self.leader)
    }

    /// A router follows Patroni's REST API.
    fn is_routed(&self) -> bool {
        true
    }

    async fn store(&self, url: &str) -> Result<Store, BoxError> {
        let config = Config::new().with_timeout(TIMEOUT);
        Ok(Arc::new(PostgresStore::connect(url, config).await?))
    }

    async fn reader(&self, url: &str) -> Result<Store, BoxError> {
        self.store(url).await
    }

    async fn cut(&mut self) -> Result<(), BoxError> {
        Ok(self.cluster.kill(self.standby())?)
    }

    async fn wait_for_waiting(&self) -> Result<(), BoxError> {
        Err("Patroni lets no commit wait for a standby that is gone".into())
    }

    async fn show_waiting(&mut self) -> Result<usize, BoxError> {
        Err("Patroni lets no commit wait for a standby that is gone".into())
    }

    /// Kills Patroni and PostgreSQL of the leader.
    async fn fail_over(&mut self) -> Result<String, BoxError> {
        let (lost, standby) = (self.leader, self.standby());
        let name = self.leader().to_owned();
        self.cluster.kill(lost)?;
        let since = Instant::now();
        if self.managed != Managed::Synchronous {
            self.cluster.start_again(standby)?;
        }
        if self.managed == Managed::Alone {
            self.wait_in_vain(since).await?;
            self.cluster.start_again(lost)?;
            self.wait_for_leader(lost).await?;
            let seconds = NO_LEADER.as_secs();
            return Ok(format!(
                "{name} was killed, none led for {seconds} s, it came back and leads"
            ));
        }
        self.wait_for_leader(standby).await?;
        self.leader = standby;
        let seconds = since.elapsed().as_secs();
        let leads = self.leader();
        Ok(format!(
            "{name} was killed, {leads} leads after {seconds} s"
        ))
    }

    /// The lost leader comes back with its data, which Patroni rewinds.
    async fn add_replica(&mut self) -> Result<(), BoxError> {
        let standby = self.standby();
        block_in_place(|| match self.managed {
            Managed::Alone => self.cluster.wait_for_size(2),
            Managed::Synchronous | Managed::Asynchronous => self.cluster.restart(standby),
        })?;
        Ok(())
    }
}
