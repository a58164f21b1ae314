//! Redis or Valkey with a replica.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore};
use idem_redis::redis::{self, Client, FromRedisValue};
use idem_redis::{Config, RedisStore, Replicas};
use idem_servers::{Instance, Options, start_private};

use super::group::{Group, Store};
use super::scene::{Caller, HOUR, Scene, Told, eventually, is_gone, request, write};

/// A master and its replica.
#[derive(Debug)]
pub struct Pair {
    master: Instance,
    replica: Instance,
}

impl Pair {
    /// Starts both: of `redis` or of `valkey`.
    ///
    /// # Errors
    ///
    /// Those of the servers.
    pub async fn start(product: &str) -> Result<Self, BoxError> {
        let master = start_private(product, &Options::new())?;
        let replica = follow(product, master.url()).await?;
        Ok(Self { master, replica })
    }

    /// Returns the master's URL.
    #[must_use]
    pub fn leader(&self) -> &str {
        self.master.url()
    }

    /// Returns the replica's URL.
    pub(super) fn follower(&self) -> &str {
        self.replica.url()
    }

    /// Returns name and version of the product.
    #[must_use]
    pub fn product(&self) -> String {
        self.master.product().to_string()
    }

    /// Cuts the link. The replica keeps what it has, and nothing on the way reaches it.
    pub(super) async fn cut(&self) -> Result<(), BoxError> {
        query::<()>(self.replica.url(), "REPLICAOF 127.0.0.1 1").await
    }

    /// Waits until this many clients of the master wait for the replica.
    pub(super) async fn waiting(&self, clients: usize) -> Result<(), BoxError> {
        eventually("clients wait for the replica", || async {
            Ok(waiting_clients(self.master.url()).await? >= clients)
        })
        .await
    }

    /// Kills the master; the replica leads.
    async fn fail_over(&mut self) -> Result<(), BoxError> {
        self.lose_master()?;
        query::<()>(self.replica.url(), "REPLICAOF NO ONE").await
    }

    /// Kills the master.
    pub(super) fn lose_master(&mut self) -> Result<(), BoxError> {
        Ok(self.master.kill()?)
    }

    /// Makes the replica, which leads, the master of a new replica.
    pub(super) async fn replace_master(&mut self, product: &str) -> Result<(), BoxError> {
        let replica = follow(product, self.replica.url()).await?;
        self.master = std::mem::replace(&mut self.replica, replica);
        Ok(())
    }
}

/// A completion waits for the replica, whose link is cut. Somebody calls; then the master is lost,
/// and the replica takes its place. `product` is `redis` or `valkey`.
///
/// # Errors
///
/// Those of the servers; an answer that no configuration explains.
pub async fn loss_of_a_waiting_completion(
    folder: &Path,
    seed: u64,
    product: &str,
    caller: Caller,
) -> Result<Told, BoxError> {
    let mut pair = Pair::start(product).await?;
    let cell = format!("{}, WAIT for a replica", pair.product());
    let scene = Scene::begin(folder, &cell, seed)?;
    // The time-outs are not the subject.
    let config = Config::new()
        .with_timeout(HOUR)
        .with_replicas(Replicas::new(1, HOUR));
    let request = request(format!("{seed}"))?;
    let store = RedisStore::connect(pair.master.url(), config.clone()).await?;
    let store = scene.recorded(store);
    let claim = caller.claim_first(&store, &request).await?;
    pair.cut().await?;
    let writing = {
        let (request, claim) = (request.clone(), claim.clone());
        tokio::spawn(async move { write(&store, &request, claim.as_ref()).await })
    };
    pair.waiting(1).await?;
    let store = RedisStore::connect(pair.master.url(), config).await?;
    let store = scene.recorded(store);
    let mut calling = tokio::spawn(caller.call(store, request.clone(), claim.clone()));
    let answered = tokio::select! {
        told = &mut calling => Some(told??),
        waited = pair.waiting(2) => waited.map(|()| None)?,
    };
    scene.fail_over(pair.fail_over()).await?;
    let told = match answered {
        Some(told) => told,
        None => calling.await??,
    };
    if writing.await?.is_ok() {
        return Err("the write was acknowledged without a replica".into());
    }
    let store = RedisStore::connect(pair.replica.url(), Config::new()).await?;
    let record = scene.recorded(store).get(request.key()).await?;
    is_gone(record.as_ref(), claim.as_ref())?;
    Ok(told)
}

/// Starts a replica of the master at this URL, and waits until it has everything.
async fn follow(product: &str, master: &str) -> Result<Instance, BoxError> {
    let replica = start_private(product, &Options::new())?;
    let address = master.trim_start_matches("redis://").replace(':', " ");
    query::<()>(replica.url(), &format!("REPLICAOF {address}")).await?;
    eventually("the replica follows", || async {
        // A write, so that the replica acknowledges it.
        let mut connection = connection(master).await?;
        let (_, count): ((), u32) = redis::pipe()
            .add_command(command("SET probe 1 EX 60"))
            .add_command(command("WAIT 1 100"))
            .query_async(&mut connection)
            .await?;
        Ok(count == 1)
    })
    .await?;
    Ok(replica)
}

async fn connection(url: &str) -> Result<redis::aio::MultiplexedConnection, BoxError> {
    Ok(Client::open(url)?
        .get_multiplexed_async_connection()
        .await?)
}

fn command(words: &str) -> redis::Cmd {
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    words.for_each(|word| {
        command.arg(word);
    });
    command
}

/// Returns how many clients of this server wait for a replica.
pub(super) async fn waiting_clients(url: &str) -> Result<usize, BoxError> {
    let list: String = query(url, "CLIENT LIST").await?;
    let waits = list.lines().filter(|line| line.contains(" cmd=wait "));
    Ok(waits.filter(|line| line.contains(" flags=b ")).count())
}

/// Returns the answer of the server at this URL.
pub(super) async fn query<T: FromRedisValue>(url: &str, words: &str) -> Result<T, BoxError> {
    let mut connection = connection(url).await?;
    Ok(command(words).query_async(&mut connection).await?)
}

/// How long a caller of a cell waits for an answer, and for the replica.
const TIMEOUT: Duration = Duration::from_secs(2);
const WITHIN: Duration = Duration::from_secs(1);

/// How long one waits for the replica that only looks what is visible.
const GLANCE: Duration = Duration::from_millis(100);

/// A master and its replica, under callers.
pub(crate) struct Replicated {
    pair: Pair,
    product: &'static str,
    waits: bool,
    is_promoted: bool,
}

impl Replicated {
    /// Starts both. `waits`: callers wait for the replica.
    pub(crate) async fn start(product: &'static str, waits: bool) -> Result<Self, BoxError> {
        Ok(Self {
            pair: Pair::start(product).await?,
            product,
            waits,
            is_promoted: false,
        })
    }

    async fn open(&self, url: &str, within: Duration) -> Result<Store, BoxError> {
        let mut config = Config::new().with_timeout(TIMEOUT);
        if self.waits {
            config = config.with_replicas(Replicas::new(1, within));
        }
        Ok(Arc::new(RedisStore::connect(url, config).await?))
    }
}

#[async_trait]
impl Group for Replicated {
    fn product(&self) -> String {
        self.pair.product()
    }

    fn settings(&self) -> String {
        match self.waits {
            true => "one replica, with_replicas(1)".to_owned(),
            false => "one replica".to_owned(),
        }
    }

    fn leader(&self) -> &str {
        match self.is_promoted {
            true => self.pair.replica.url(),
            false => self.pair.master.url(),
        }
    }

    fn is_routed(&self) -> bool {
        true
    }

    async fn store(&self, url: &str) -> Result<Store, BoxError> {
        self.open(url, WITHIN).await
    }

    async fn reader(&self, url: &str) -> Result<Store, BoxError> {
        self.open(url, GLANCE).await
    }

    async fn cut(&mut self) -> Result<(), BoxError> {
        self.pair.cut().await
    }

    async fn wait_for_waiting(&self) -> Result<(), BoxError> {
        self.pair.waiting(1).await
    }

    /// They are visible.
    async fn show_waiting(&mut self) -> Result<usize, BoxError> {
        waiting_clients(self.pair.master.url()).await
    }

    async fn fail_over(&mut self) -> Result<String, BoxError> {
        let lost = self.leader().to_owned();
        self.pair.fail_over().await?;
        self.is_promoted = true;
        Ok(format!("{lost} was killed, {} leads", self.leader()))
    }

    async fn add_replica(&mut self) -> Result<(), BoxError> {
        self.pair.replace_master(self.product).await?;
        self.is_promoted = false;
        Ok(())
    }
}
