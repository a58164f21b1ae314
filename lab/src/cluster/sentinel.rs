//! Redis or Valkey with a replica, of which a Sentinel decides who leads.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_redis::{Config, RedisStore, Replicas};
use idem_servers::{Instance, Options, RedisSentinel, start_private};

use super::group::{Group, Store};
use super::redis::{Pair, query, waiting_clients};
use super::scene::eventually;

/// How long a caller waits for an answer, and for the replica.
const TIMEOUT: Duration = Duration::from_secs(2);
const WITHIN: Duration = Duration::from_secs(1);

/// A master, its replica and their Sentinel.
pub(crate) struct Watched {
    // Dropped first: it would promote one of them.
    sentinel: Instance,
    pair: Pair,
    waits: bool,
    is_promoted: bool,
}

impl Watched {
    /// Starts them. `waits`: callers wait for the replica.
    pub(crate) async fn start(waits: bool) -> Result<Self, BoxError> {
        let pair = Pair::start("redis").await?;
        let options = Options::new().with_upstream(pair.leader());
        Ok(Self {
            sentinel: start_private("redis-sentinel", &options)?,
            pair,
            waits,
            is_promoted: false,
        })
    }

    /// Waits until the Sentinel sees the follower of the leader of the day.
    async fn watch_follower(&self) -> Result<(), BoxError> {
        let replica = port(self.pair.follower())?;
        let command = format!("SENTINEL replicas {}", RedisSentinel::MASTER);
        eventually("the Sentinel sees the replica", || async {
            let replicas: Vec<Vec<String>> = query(self.sentinel.url(), &command).await?;
            let is_up = |fields: &[String]| {
                let value = |name: &str| {
                    let mut pairs = fields.chunks_exact(2);
                    pairs.find(|pair| pair[0] == name).map(|pair| &*pair[1])
                };
                value("port") == Some(&*replica)
                    && value("flags") == Some("slave")
                    && value("master-link-status") == Some("ok")
            };
            Ok(replicas.iter().any(|fields| is_up(fields)))
        })
        .await
    }
}

fn port(url: &str) -> Result<String, BoxError> {
    let port = url.rsplit(':').next().ok_or("a URL has a port")?;
    Ok(port.to_owned())
}

#[async_trait]
impl Group for Watched {
    fn product(&self) -> String {
        self.pair.product()
    }

    fn settings(&self) -> String {
        match self.waits {
            true => "one replica, Sentinel, with_replicas(1)".to_owned(),
            false => "one replica, Sentinel".to_owned(),
        }
    }

    fn leader(&self) -> &str {
        match self.is_promoted {
            true => self.pair.follower(),
            false => self.pair.leader(),
        }
    }

    /// Callers ask the Sentinel.
    fn is_routed(&self) -> bool {
        false
    }

    async fn store(&self, _: &str) -> Result<Store, BoxError> {
        let mut config = Config::new().with_timeout(TIMEOUT);
        if self.waits {
            config = config.with_replicas(Replicas::new(1, WITHIN));
        }
        let (sentinels, master) = ([self.sentinel.url()], RedisSentinel::MASTER);
        let any = "redis://any";
        let store = RedisStore::connect_sentinel(&sentinels, master, any, config);
        Ok(Arc::new(store.await?))
    }

    async fn reader(&self, url: &str) -> Result<Store, BoxError> {
        self.store(url).await
    }

    async fn cut(&mut self) -> Result<(), BoxError> {
        self.pair.cut().await
    }

    async fn wait_for_waiting(&self) -> Result<(), BoxError> {
        self.pair.waiting(1).await
    }

    async fn show_waiting(&mut self) -> Result<usize, BoxError> {
        waiting_clients(self.pair.leader()).await
    }

    async fn fail_over(&mut self) -> Result<String, BoxError> {
        let lost = self.leader().to_owned();
        self.pair.lose_master()?;
        self.is_promoted = true;
        let leads = port(self.pair.follower())?;
        let command = format!("SENTINEL get-master-addr-by-name {}", RedisSentinel::MASTER);
        eventually("the Sentinel names the replica", || async {
            let address: Vec<String> = query(self.sentinel.url(), &command).await?;
            Ok(address.get(1) == Some(&leads))
        })
        .await?;
        Ok(format!("{lost} was killed, the Sentinel made {leads} lead"))
    }

    async fn add_replica(&mut self) -> Result<(), BoxError> {
        self.pair.replace_master("redis").await?;
        self.is_promoted = false;
        self.watch_follower().await
    }
}
