//! Slots that are moved from one master to another.

use std::time::Duration;

use idem_core::{BatchStore, Finish, IdempotencyStore, Record, Response, StalePolicy};
use idem_redis::redis::{self, Client};
use idem_redis::{Config, RedisStore, Replicas};
use idem_servers::{Cluster, Options, start_private_cluster};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::own::{HOUR, Outcome, query, request};
use crate::slots::{ids_of_one_slot, master, record_key, slot, store};

/// A slot on its way.
pub(crate) struct Move<'c> {
    cluster: &'c Cluster,
    slot: u16,
    from: usize,
    to: usize,
}

impl<'c> Move<'c> {
    pub(crate) fn of(cluster: &'c Cluster, id: &str) -> Self {
        let from = master(&request(id));
        let (slot, to) = (slot(&request(id)), (from + 1) % 3);
        Self {
            cluster,
            slot,
            from,
            to,
        }
    }

    async fn id(&self, node: usize) -> Outcome<String> {
        query(self.cluster.url(node), "CLUSTER MYID").await
    }

    async fn set(&self, node: usize, state: &str) -> Outcome {
        let words = format!("CLUSTER SETSLOT {} {state}", self.slot);
        query(self.cluster.url(node), &words).await
    }

    /// From here on the old master answers ASK for keys that it does not have.
    pub(crate) async fn begin(&self) -> Outcome {
        let from = self.id(self.from).await?;
        self.set(self.to, &format!("IMPORTING {from}")).await?;
        let to = self.id(self.to).await?;
        self.set(self.from, &format!("MIGRATING {to}")).await
    }

    /// Moves records over.
    pub(crate) async fn take<'i>(&self, ids: impl Iterator<Item = &'i String>) -> Outcome {
        let port = self
            .cluster
            .url(self.to)
            .rsplit(':')
            .next()
            .unwrap_or_default();
        let mut migrate = redis::cmd("MIGRATE");
        migrate
            .arg("127.0.0.1")
            .arg(port)
            .arg("")
            .arg(0)
            .arg(5000)
            .arg("KEYS");
        for id in ids {
            migrate.arg(record_key(&request(id)));
        }
        let client = Client::open(self.cluster.url(self.from))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        Ok(migrate.query_async(&mut connection).await?)
    }

    /// From here on the old master answers MOVED.
    pub(crate) async fn end(&self) -> Outcome {
        let to = self.id(self.to).await?;
        for node in [self.to, self.from, 3 - self.to - self.from] {
            self.set(node, &format!("NODE {to}")).await?;
        }
        Ok(())
    }
}

/// Returns the settings of the stores in these tests: the second sends each write in another way.
fn configs() -> [Config; 2] {
    let replicas = Replicas::new(1, Duration::from_secs(2));
    [Config::new(), Config::new().with_replicas(replicas)]
}

/// Every operation, on existing keys and on a fresh one. `done` is completed, `held` is held.
async fn every_operation(store: &RedisStore, [done, held, fresh]: [&str; 3]) -> Outcome {
    assert_eq!(store.claim(&request(done)).await?.name(), "completed");
    assert_eq!(store.claim(&request(held)).await?.name(), "in_flight");
    assert!(store.get(request(done).key()).await?.is_some());
    assert!(store.get(request(fresh).key()).await?.is_none());
    let claim = store
        .claim(&request(fresh))
        .await?
        .acquired()
        .ok_or("fresh")?;
    let claim = store.renew(&claim, 2 * HOUR).await?;
    store.release(&claim).await?;
    let batch = [done, held, fresh].map(request);
    let mut names = Vec::new();
    for outcome in store.claim_many(&batch).await {
        let outcome = outcome?;
        names.push(outcome.name());
        if let Some(claim) = outcome.acquired() {
            let (response, retention) = (Response::new(200, fresh.to_owned()), HOUR);
            let completion = Finish::Complete {
                claim,
                response,
                retention,
            };
            for done in store.finish_many(&[completion]).await {
                done?;
            }
        }
    }
    assert_eq!(names, ["completed", "in_flight", "acquired"]);
    let Some(Record::Completed(record)) = store.get(request(fresh).key()).await? else {
        return Err("the completion is lost".into());
    };
    assert_eq!(record.response.body(), fresh);
    Ok(())
}

/// No error reaches the caller, before, during and after the move, whether the record is still at
/// the old master or already at the new one.
pub(crate) fn followed(runtime: &Runtime) -> Outcome {
    let cluster = start_private_cluster("redis-cluster", &Options::new())?;
    runtime.block_on(async {
        for (place, config) in configs().into_iter().enumerate() {
            let ids = ids_of_one_slot(&format!("config {place}"), 11);
            let (moving, store) = (Move::of(&cluster, &ids[0]), store(&cluster, config).await?);
            for number in [0, 1, 2, 3] {
                let claim = store.claim(&request(&ids[number])).await?;
                let claim = claim.acquired().ok_or("fresh")?;
                if number < 2 {
                    let response = Response::new(200, ids[number].clone());
                    store.complete(&claim, &response, HOUR).await?;
                }
            }
            let stale = request(&ids[10]).with_on_stale(StalePolicy::Fail);
            let stale = stale.with_lease(Duration::from_millis(1));
            assert!(store.claim(&stale).await?.acquired().is_some());
            let fresh = |number: usize| ids[number].as_str();
            every_operation(&store, [&ids[0], &ids[2], fresh(4)]).await?;
            moving.begin().await?;
            // The existing keys are still there, the fresh one is not: ASK.
            every_operation(&store, [&ids[0], &ids[2], fresh(5)]).await?;
            moving.take([&ids[0], &ids[2], &ids[4]].into_iter()).await?;
            every_operation(&store, [&ids[0], &ids[2], fresh(6)]).await?;
            every_operation(&store, [&ids[1], &ids[3], fresh(7)]).await?;
            assert_eq!(store.fail_abandoned(100).await?, 1, "where it is");
            moving.take(ids.iter()).await?;
            moving.end().await?;
            // MOVED.
            every_operation(&store, [&ids[1], &ids[3], fresh(8)]).await?;
            every_operation(&store, [&ids[0], &ids[2], fresh(9)]).await?;
        }
        Ok(())
    })
}

pub(crate) fn race(runtime: &Runtime) -> Outcome {
    const KEYS: usize = 60;
    let cluster = start_private_cluster("redis-cluster", &Options::new())?;
    let ids = ids_of_one_slot("raced", KEYS);
    let mut racers = JoinSet::new();
    for config in configs() {
        for _ in 0..3 {
            let store = runtime.block_on(store(&cluster, config.clone()))?;
            let ids = ids.clone();
            racers.spawn_on(claim_all(store, ids), runtime.handle());
        }
    }
    runtime.block_on(async {
        let moving = Move::of(&cluster, &ids[0]);
        moving.begin().await?;
        for some in ids.chunks(7) {
            moving.take(some.iter()).await?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut counts = std::collections::BTreeMap::<String, u32>::new();
        // Records claimed at the old one meanwhile are moved, too.
        moving.take(ids.iter()).await?;
        moving.end().await?;
        while let Some(won) = racers.join_next().await {
            for id in won?? {
                *counts.entry(id).or_default() += 1;
            }
        }
        assert_eq!(counts.len(), KEYS);
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
        Ok(())
    })
}

/// Returns the ids that were its own; an error does not matter to the caller here.
async fn claim_all(store: RedisStore, ids: Vec<String>) -> Outcome<Vec<String>> {
    let mut won = Vec::new();
    for id in ids {
        if store.claim(&request(&id)).await?.acquired().is_some() {
            won.push(id);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(won)
}
