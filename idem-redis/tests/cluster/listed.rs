//! Lists over all masters, while these change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use idem_core::admin::{Cursor, RecordFilter, RecordPage};
use idem_core::{BatchStore, ClaimRequest, RecordAdmin};
use idem_redis::{Config, RedisStore, Replicas};
use idem_servers::{Options, start_private_cluster};
use tokio::runtime::Runtime;

use crate::moved::Move;
use crate::own::{Outcome, eventually, query, request};
use crate::slots::{master, slot, store};

const RECORDS: usize = 300;

/// Claims this many keys.
async fn claim_all(store: &RedisStore) -> Outcome<Vec<ClaimRequest>> {
    let requests: Vec<_> = (0..RECORDS)
        .map(|number| request(format!("{number}")))
        .collect();
    for outcome in store.claim_many(&requests).await {
        assert!(outcome?.acquired().is_some());
    }
    Ok(requests)
}

async fn page(store: &RedisStore, after: Option<&Cursor>, limit: u32) -> Outcome<RecordPage> {
    Ok(store.list(&RecordFilter::new(), after, limit).await?)
}

/// Returns the ids of the records from this cursor on, each with how often it came.
async fn rest(
    store: &RedisStore,
    mut cursor: Option<Cursor>,
    limit: u32,
) -> Outcome<BTreeMap<String, u32>> {
    let mut found = BTreeMap::new();
    loop {
        let page = page(store, cursor.as_ref(), limit).await?;
        for record in page.records {
            *found.entry(record.key.id().to_owned()).or_default() += 1;
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

/// Lists until the records of one master are passed over. Returns that master, the ids of all
/// records up to there, and where the list goes on.
async fn first_master(store: &RedisStore) -> Outcome<(usize, BTreeSet<String>, Cursor)> {
    let (mut first, mut found, mut cursor) = (None, BTreeSet::new(), None);
    loop {
        let page = page(store, cursor.as_ref(), 10).await?;
        let next = page.next.ok_or("there are more masters")?;
        let mut is_passed = false;
        for record in page.records {
            let id = record.key.id().to_owned();
            let of = master(&request(&id));
            is_passed |= *first.get_or_insert(of) != of;
            found.insert(id);
        }
        if is_passed {
            return Ok((first.ok_or("records")?, found, next));
        }
        cursor = Some(next);
    }
}

pub(crate) fn everywhere(runtime: &Runtime) -> Outcome {
    let cluster = start_private_cluster("redis-cluster", &Options::new())?;
    runtime.block_on(async {
        let store = store(&cluster, Config::new()).await?;
        let requests = claim_all(&store).await?;
        let masters: BTreeSet<_> = requests.iter().map(master).collect();
        assert_eq!(masters.len(), 3, "the records are everywhere");
        for limit in [1, 7, 10_000] {
            let found = rest(&store, None, limit).await?;
            assert_eq!(found.len(), RECORDS, "pages of {limit}");
        }
        Ok(())
    })
}

/// The list has passed over the new master already, and has not come to the old one.
pub(crate) fn moved(runtime: &Runtime) -> Outcome {
    let cluster = start_private_cluster("redis-cluster", &Options::new())?;
    runtime.block_on(async {
        let store = store(&cluster, Config::new()).await?;
        let requests = claim_all(&store).await?;
        let (passed, found, cursor) = first_master(&store).await?;
        let unseen = |request: &&ClaimRequest| {
            master(request) == (passed + 2) % 3 && !found.contains(request.key().id())
        };
        let late = requests
            .iter()
            .find(unseen)
            .ok_or("a record that is not listed yet")?;
        let moving = Move::of(&cluster, late.key().id());
        moving.begin().await?;
        let of_the_slot = requests.iter().filter(|other| slot(other) == slot(late));
        let ids: Vec<_> = of_the_slot
            .map(|other| other.key().id().to_owned())
            .collect();
        moving.take(ids.iter()).await?;
        moving.end().await?;
        let others = rest(&store, Some(cursor), 10).await?;
        for request in &requests {
            let id = request.key().id();
            assert!(
                found.contains(id) || others.contains_key(id),
                "{id} is missing"
            );
        }
        assert!(others.contains_key(late.key().id()));
        Ok(())
    })
}

/// The promoted replica has its keys in an order of its own, so a cursor of the old master would
/// miss some.
pub(crate) fn promoted(runtime: &Runtime) -> Outcome {
    let cluster = start_private_cluster("redis-cluster", &Options::new())?;
    runtime.block_on(async {
        let replicas = Replicas::new(1, Duration::from_secs(2));
        let store = store(&cluster, Config::new().with_replicas(replicas)).await?;
        let requests = claim_all(&store).await?;
        let first = page(&store, None, 10).await?;
        let mut found: BTreeSet<_> = first
            .records
            .iter()
            .map(|r| r.key.id().to_owned())
            .collect();
        let seen = found.first().ok_or("records")?;
        let old = master(&request(seen));
        let id: String = query(cluster.url(old), "CLUSTER MYID").await?;
        for node in 0..cluster.nodes() {
            let nodes: String = query(cluster.url(node), "CLUSTER NODES").await?;
            let myself = nodes
                .lines()
                .find(|line| line.contains("myself"))
                .unwrap_or_default();
            if myself.contains("slave") && myself.contains(&id) {
                query::<()>(cluster.url(node), "CLUSTER FAILOVER").await?;
            }
        }
        eventually("the replica is promoted", async || {
            let nodes: Outcome<String> = query(cluster.url(old), "CLUSTER NODES").await;
            nodes.is_ok_and(|nodes| nodes.contains("myself,slave"))
        })
        .await?;
        let mut cursor = first.next;
        eventually("the list ends", async || {
            // The store's connections may have to find the new master first.
            while let Ok(page) = page(&store, cursor.as_ref(), 10).await {
                found.extend(page.records.iter().map(|record| record.key.id().to_owned()));
                cursor = page.next;
                if cursor.is_none() {
                    return true;
                }
            }
            false
        })
        .await?;
        assert_eq!(found.len(), requests.len());
        Ok(())
    })
}
