//! Redis Cluster: three masters, each with a replica, one of which is lost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_redis::{Config, RedisStore, Replicas};
use idem_servers::{Cluster, Options, start_private_cluster};

use super::group::{Group, Store};
use super::redis::{query, waiting_clients};
use super::scene::eventually;

/// How long a caller waits for an answer: a takeover lasts two or three seconds.
const TIMEOUT: Duration = Duration::from_secs(4);
const WITHIN: Duration = Duration::from_secs(1);

/// How long one waits for the replica that only looks what is visible.
const GLANCE: Duration = Duration::from_millis(100);

/// Six nodes under callers.
pub(crate) struct Nodes {
    cluster: Cluster,
    /// All URLs, with commas between them.
    urls: String,
    /// Each master and its replica.
    shards: [(usize, usize); 3],
    /// The shard whose master is lost next.
    next: usize,
    is_cut: bool,
    waits: bool,
}

impl Nodes {
    /// Starts them. `waits`: callers wait for the replica of the key's master.
    pub(crate) fn start(waits: bool) -> Result<Self, BoxError> {
        let cluster = start_private_cluster("redis-cluster", &Options::new())?;
        let urls: Vec<_> = (0..cluster.nodes()).map(|node| cluster.url(node)).collect();
        let urls = urls.join(",");
        Ok(Self {
            cluster,
            urls,
            shards: [(0, 3), (1, 4), (2, 5)],
            next: 0,
            is_cut: false,
            waits,
        })
    }

    fn master(&self) -> &str {
        self.cluster.url(self.shards[self.next].0)
    }

    async fn open(&self, urls: &str, within: Duration) -> Result<Store, BoxError> {
        let mut config = Config::new().with_timeout(TIMEOUT);
        if self.waits {
            config = config.with_replicas(Replicas::new(1, within));
        }
        let urls: Vec<_> = urls.split(',').collect();
        Ok(Arc::new(RedisStore::connect_cluster(&urls, config).await?))
    }
}

#[async_trait]
impl Group for Nodes {
    fn product(&self) -> String {
        self.cluster.product().to_string()
    }

    fn settings(&self) -> String {
        match self.waits {
            true => "three masters, three replicas, with_replicas(1)".to_owned(),
            false => "three masters, three replicas".to_owned(),
        }
    }

    fn leader(&self) -> &str {
        &self.urls
    }

    /// Clients find the masters themselves.
    fn is_routed(&self) -> bool {
        false
    }

    async fn store(&self, urls: &str) -> Result<Store, BoxError> {
        self.open(urls, WITHIN).await
    }

    async fn reader(&self, urls: &str) -> Result<Store, BoxError> {
        self.open(urls, GLANCE).await
    }

    /// Frozen, the replica does not come back when its link is closed. Only what was on the way
    /// before reaches it later.
    async fn cut(&mut self) -> Result<(), BoxError> {
        self.cluster.freeze(self.shards[self.next].1)?;
        query::<i64>(self.master(), "CLIENT KILL TYPE replica").await?;
        self.is_cut = true;
        Ok(())
    }

    async fn wait_for_waiting(&self) -> Result<(), BoxError> {
        eventually("clients wait for the replica", || async {
            Ok(waiting_clients(self.master()).await? > 0)
        })
        .await
    }

    /// They are visible.
    async fn show_waiting(&mut self) -> Result<usize, BoxError> {
        waiting_clients(self.master()).await
    }

    async fn fail_over(&mut self) -> Result<String, BoxError> {
        let (master, replica) = self.shards[self.next];
        self.cluster.kill(master)?;
        if std::mem::take(&mut self.is_cut) {
            self.cluster.thaw(replica)?;
        }
        let url = self.cluster.url(replica);
        eventually("the replica takes over", || async {
            let role: String = query(url, "INFO replication").await?;
            Ok(role.contains("role:master"))
        })
        .await?;
        let lost = self.cluster.url(master);
        Ok(format!("{lost} was killed, {url} leads its slots"))
    }

    async fn add_replica(&mut self) -> Result<(), BoxError> {
        let (master, replica) = self.shards[self.next];
        self.cluster.restart(master)?;
        self.shards[self.next] = (replica, master);
        self.next = (self.next + 1) % self.shards.len();
        Ok(())
    }
}
