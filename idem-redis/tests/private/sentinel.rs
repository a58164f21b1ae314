//! A master, a replica, and a sentinel that decides which is which.

use std::collections::HashMap;
use std::time::Duration;

use idem_core::{ClaimOutcome, IdempotencyStore, IdempotencyStoreExt};
use idem_redis::{Config, RedisStore};
use idem_servers::{Instance, Options, RedisSentinel, start_private};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::own::{Outcome, eventually, query, request};
use crate::replicas::{Pair, waiting};

const KEYS: usize = 400;
const WRITERS: usize = 4;
const LIMIT: Duration = Duration::from_secs(60);

fn watched(pair: &Pair) -> Outcome<Instance> {
    let options = Options::new().with_upstream(pair.master.url());
    Ok(start_private("redis-sentinel", &options)?)
}

async fn store(sentinel: &Instance, config: Config) -> Outcome<RedisStore> {
    let (urls, template) = ([sentinel.url()], "redis://anywhere");
    let store = RedisStore::connect_sentinel(&urls, RedisSentinel::MASTER, template, config);
    Ok(store.await?)
}

/// Claims every key, and repeats until each has an answer; returns the keys that are its own.
async fn stream(store: RedisStore) -> Outcome<Vec<String>> {
    let mut won = Vec::new();
    for number in 0..KEYS {
        let request = request(format!("{number}"));
        match store.claim_retrying(&request, LIMIT).await? {
            ClaimOutcome::Acquired(claim) => won.push(claim.key().id().to_owned()),
            ClaimOutcome::InFlight(_) => {}
            other => return Err(format!("{} of {number}", other.name()).into()),
        }
    }
    Ok(won)
}

/// Writes that one replica acknowledged are on both nodes, so the new leader knows them.
pub(crate) fn failover(runtime: &Runtime, _: &str) -> Outcome {
    let mut pair = Pair::start(runtime)?;
    let sentinel = watched(&pair)?;
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let store = runtime.block_on(store(&sentinel, waiting()))?;
        writers.spawn_on(stream(store), runtime.handle());
    }
    let watching = runtime.block_on(store(&sentinel, Config::new()))?;
    let reached = async |number: usize| {
        let key = request(format!("{number}"));
        matches!(watching.get(key.key()).await, Ok(Some(_)))
    };
    runtime.block_on(eventually("some are claimed", async || reached(40).await))?;
    pair.master.kill()?;
    // The replica leads alone until the other one is back: nothing is acknowledged till then.
    let url = pair.replica.url().to_owned();
    runtime.block_on(eventually("the replica leads", async || {
        let role = query::<String>(&url, "INFO replication").await;
        role.is_ok_and(|role| role.contains("role:master"))
    }))?;
    pair.master.restart()?;
    let mut winners: HashMap<String, u32> = HashMap::new();
    runtime.block_on(async {
        while let Some(won) = writers.join_next().await {
            for id in won?? {
                *winners.entry(id).or_default() += 1;
            }
        }
        Outcome::Ok(())
    })?;
    assert_eq!(winners.len(), KEYS, "acquired keys");
    let twice: Vec<_> = winners.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "acquired more than once: {twice:?}");
    runtime.block_on(async {
        // The node that came back is a replica, and no client uses it.
        let returned: String = query(pair.master.url(), "INFO replication").await?;
        assert!(returned.contains("role:slave"), "{returned}");
        let claim = watching.claim_retrying(&request("fresh"), LIMIT).await?;
        assert!(claim.acquired().is_some());
        let there = RedisStore::connect(pair.replica.url(), Config::new()).await?;
        assert!(there.get(request("fresh").key()).await?.is_some());
        Ok(())
    })
}

/// No node dies: the sentinel gets the order to hand over, while claims go on.
pub(crate) fn demoted(runtime: &Runtime, _: &str) -> Outcome {
    let pair = Pair::start(runtime)?;
    let sentinel = watched(&pair)?;
    runtime.block_on(async {
        let store = store(&sentinel, waiting()).await?;
        let claim = store.claim(&request("before")).await?;
        assert!(claim.acquired().is_some());
        let hand_over = format!("SENTINEL FAILOVER {}", RedisSentinel::MASTER);
        eventually("the sentinel hands over", async || {
            query::<()>(sentinel.url(), &hand_over).await.is_ok()
        })
        .await?;
        let mut number = 0;
        let url = pair.master.url().to_owned();
        eventually("the master is demoted", async || {
            number += 1;
            let _ = store.claim(&request(format!("meanwhile {number}"))).await;
            let role = query::<String>(&url, "INFO replication").await;
            role.is_ok_and(|role| role.contains("role:slave"))
        })
        .await?;
        for number in 0..100 {
            let request = request(format!("after {number}"));
            let claim = store.claim_retrying(&request, LIMIT).await?;
            assert!(claim.acquired().is_some(), "{number}");
        }
        let there = RedisStore::connect(pair.replica.url(), Config::new()).await?;
        assert!(there.get(request("before").key()).await?.is_some());
        assert!(there.get(request("after 99").key()).await?.is_some());
        Ok(())
    })
}
