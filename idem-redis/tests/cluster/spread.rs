//! Keys of all slots.

use std::collections::BTreeMap;
use std::time::Duration;

use idem_core::{BatchStore, Finish, IdempotencyStore, Record, Response, StalePolicy};
use idem_redis::{Config, RedisStore, Replicas};
use idem_servers::{Options, start_private_cluster};
use tokio::runtime::Runtime;

use crate::own::{HOUR, Outcome, request};
use crate::slots::{master, store};

const RECORDS: u64 = 900;

pub(crate) fn everywhere(runtime: &Runtime) -> Outcome {
    let cluster = start_private_cluster("redis-cluster", &Options::new())?;
    let replicas = Replicas::new(1, Duration::from_secs(2));
    runtime.block_on(async {
        let plain = store(&cluster, Config::new()).await?;
        let waiting = store(&cluster, Config::new().with_replicas(replicas)).await?;
        completes(&plain, "plain").await?;
        completes(&waiting, "waiting").await?;
        sweeps(&plain).await
    })
}

async fn completes(store: &RedisStore, prefix: &str) -> Outcome {
    let requests: Vec<_> = (0..RECORDS)
        .map(|number| request(format!("{prefix} {number}")))
        .collect();
    let mut completions = Vec::new();
    let mut masters: BTreeMap<usize, u32> = BTreeMap::new();
    for (request, outcome) in requests.iter().zip(store.claim_many(&requests).await) {
        *masters.entry(master(request)).or_default() += 1;
        let claim = outcome?.acquired().ok_or("a fresh key")?;
        assert_eq!(claim.key(), request.key(), "in order");
        let (response, retention) = (Response::new(200, request.key().id().to_owned()), HOUR);
        completions.push(Finish::Complete {
            claim,
            response,
            retention,
        });
    }
    assert!(
        masters.len() == 3 && masters.values().all(|count| *count > 200),
        "{masters:?}"
    );
    for done in store.finish_many(&completions).await {
        done?;
    }
    for request in &requests {
        let Some(Record::Completed(record)) = store.get(request.key()).await? else {
            return Err("not completed".into());
        };
        assert_eq!(record.response.body(), request.key().id());
    }
    Ok(())
}

/// No more than requested, each of them once, those of all masters.
async fn sweeps(store: &RedisStore) -> Outcome {
    let stale = |number| {
        let request = request(format!("stale {number}"));
        let request = request.with_on_stale(StalePolicy::Fail);
        request.with_lease(Duration::from_millis(1))
    };
    let requests: Vec<_> = (0..RECORDS).map(stale).collect();
    for outcome in store.claim_many(&requests).await {
        assert!(outcome?.acquired().is_some());
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(store.fail_abandoned(100).await?, 100);
    assert_eq!(store.fail_abandoned(700).await?, 700);
    assert_eq!(store.fail_abandoned(1000).await?, RECORDS - 800);
    assert_eq!(store.fail_abandoned(1000).await?, 0);
    for request in &requests {
        let record = store.get(request.key()).await?;
        assert!(matches!(record, Some(Record::Failed(_))), "{record:?}");
    }
    Ok(())
}

/// With the address of a replica, or of a master that is not the first.
pub(crate) fn one_seed(runtime: &Runtime) -> Outcome {
    let cluster = start_private_cluster("redis-cluster", &Options::new())?;
    runtime.block_on(async {
        for node in [1, 4] {
            let store = RedisStore::connect_cluster(&[cluster.url(node)], Config::new()).await?;
            for number in 0..60 {
                let claim = store.claim(&request(format!("{node}-{number}"))).await?;
                assert!(claim.acquired().is_some());
            }
        }
        Ok(())
    })
}
