//! A Galera cluster of its own; its nodes get writes all at once, and are killed.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_core::{
    BoxError, ClaimOutcome, ClaimRequest, Effect, ErrorKind, Fingerprint, IdempotencyStore,
    IdempotencyStoreExt, Key, Record, Response,
};
use idem_mysql::sqlx::{self, MySqlPool};
use idem_mysql::{Config, MySqlStore};
use idem_servers::{Cluster, Options, start_private_cluster};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const HOUR: Duration = Duration::from_secs(3600);
const NODES: usize = 3;
const KEYS: usize = 60;
const WRITERS: usize = 4;

fn main() -> ExitCode {
    let missing = idem_servers::no_private("galera");
    let trials = [
        trial("writers_on_all_nodes_have_one_winner_per_key", race),
        trial(
            "stale_keys_are_taken_over_once_by_writers_on_all_nodes",
            takeover,
        ),
        trial(
            "a_node_killed_in_a_race_breaks_no_rule_and_joins_again",
            killed,
        ),
        trial(
            "a_claim_of_one_node_is_completed_and_replayed_by_others",
            handed_on,
        ),
        trial(
            "without_sync_wait_a_node_answers_from_before_another_nodes_commit",
            lagging,
        ),
        trial(
            "purges_on_all_nodes_delete_each_record_once",
            delete_expired,
        ),
        trial(
            "a_claim_under_way_when_its_node_is_evicted_is_not_said_to_be_undone",
            evicted,
        ),
        trial(
            "a_claim_asked_again_in_doubt_begins_its_lease_anew",
            asked_again,
        ),
    ];
    let trials = trials.map(|trial| trial.with_ignored_flag(missing)).into();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, test: fn(&Runtime) -> Result<(), BoxError>) -> Trial {
    Trial::test(name, move || {
        let runtime = Runtime::new().map_err(|error| Failed::from(error.to_string()))?;
        test(&runtime).map_err(|error| Failed::from(format!("{error}: {:?}", error.source())))
    })
}

fn request(id: impl AsRef<str>) -> ClaimRequest {
    let key = Key::new("tenant", "payments.create", id).expect("a valid id");
    ClaimRequest::new(key, Fingerprint::raw("request")).with_lease(HOUR)
}

/// Opens a store on each node. Without `wsrep_sync_wait` a node may answer from a state before the
/// others' commits.
async fn stores(cluster: &Cluster, sync_wait: Option<u8>) -> Result<Vec<MySqlStore>, BoxError> {
    let mut stores = Vec::new();
    for node in 0..NODES {
        let config =
            sync_wait.map_or_else(Config::new, |bits| Config::new().with_wsrep_sync_wait(bits));
        let store = MySqlStore::connect(cluster.url(node), config).await?;
        if node == 0 {
            store.migrate().await?;
        }
        until_there(&store).await?;
        stores.push(store);
    }
    Ok(stores)
}

/// Waits for the table, which reaches the other nodes a moment later.
async fn until_there(store: &MySqlStore) -> Result<(), BoxError> {
    for _ in 0..200 {
        if store.verify().await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Ok(store.verify().await?)
}

/// Claims the keys from every node with several writers each, in other orders; returns the holder
/// of each key.
async fn claim_everywhere(
    stores: &[MySqlStore],
    ids: &[String],
) -> Result<HashMap<String, u32>, BoxError> {
    let ids: Arc<[String]> = ids.into();
    let mut writers = JoinSet::new();
    for (node, store) in stores.iter().enumerate() {
        for writer in 0..WRITERS {
            let (store, ids) = (store.clone(), Arc::clone(&ids));
            writers.spawn(async move {
                let mut won = Vec::new();
                for number in 0..ids.len() {
                    // Half of the writers start from the other end.
                    let place = if writer % 2 == 0 {
                        number
                    } else {
                        ids.len() - 1 - number
                    };
                    let request = request(&ids[place]);
                    match store.claim_retrying(&request, HOUR).await? {
                        ClaimOutcome::Acquired(claim) => won.push(claim.key().id().to_owned()),
                        ClaimOutcome::InFlight(_) => {}
                        other => return Err(format!("{} on node {node}", other.name()).into()),
                    }
                }
                Ok::<_, BoxError>(won)
            });
        }
    }
    let mut winners = HashMap::new();
    while let Some(won) = writers.join_next().await {
        for id in won?? {
            *winners.entry(id).or_default() += 1;
        }
    }
    Ok(winners)
}

fn all_won_once(winners: &HashMap<String, u32>) {
    assert_eq!(winners.len(), KEYS, "acquired keys");
    let twice: Vec<_> = winners.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "acquired more than once: {twice:?}");
}

fn race(runtime: &Runtime) -> Result<(), BoxError> {
    let cluster = start_private_cluster("galera", &Options::new())?;
    runtime.block_on(async {
        let stores = stores(&cluster, None).await?;
        let ids: Vec<_> = (0..KEYS).map(|number| format!("key-{number}")).collect();
        all_won_once(&claim_everywhere(&stores, &ids).await?);
        let refused: u64 = stores
            .iter()
            .map(|store| store.contention().deadlocks)
            .sum();
        println!("{refused} statements were refused and sent again");
        Ok(())
    })
}

fn takeover(runtime: &Runtime) -> Result<(), BoxError> {
    let cluster = start_private_cluster("galera", &Options::new())?;
    runtime.block_on(async {
        let stores = stores(&cluster, None).await?;
        let ids: Vec<_> = (0..KEYS).map(|number| format!("key-{number}")).collect();
        let mut tokens = HashMap::new();
        for id in &ids {
            let short = request(id).with_lease(Duration::from_millis(1));
            let claim = stores[0]
                .claim(&short)
                .await?
                .acquired()
                .ok_or("a fresh key")?;
            tokens.insert(id.clone(), claim.token());
        }
        all_won_once(&claim_everywhere(&stores, &ids).await?);
        for id in &ids {
            let Some(Record::InFlight(record)) = stores[0].get(request(id).key()).await? else {
                return Err(format!("{id} is not held").into());
            };
            assert!(record.info.token > tokens[id]);
            assert_eq!(record.info.attempts, 2);
        }
        Ok(())
    })
}

/// Claims and completes each key, through another node when its own does not answer; returns the
/// answers.
async fn work(stores: Vec<MySqlStore>, node: usize) -> Result<Vec<(String, Response)>, BoxError> {
    let mut answers = Vec::new();
    let mut place = node;
    for number in 0..KEYS * 4 {
        let request = request(format!("work-{number}"));
        let own = Response::new(200, request.attempt().as_bytes().to_vec());
        let answer = loop {
            let done = claim_and_complete(&stores[place], &request, &own).await;
            match done {
                Ok(Some(answer)) => break answer,
                // Held by another caller that still works, or by this attempt, whose completion was
                // cut off.
                Ok(None) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(error) if error.is_retryable() => place = (place + 1) % 2,
                Err(error) => return Err(error.into()),
            }
        };
        answers.push((request.key().id().to_owned(), answer));
    }
    Ok(answers)
}

/// Claims and completes; returns the answer, or `None` while another caller holds the key.
async fn claim_and_complete(
    store: &MySqlStore,
    request: &ClaimRequest,
    own: &Response,
) -> idem_core::Result<Option<Response>> {
    Ok(match store.claim(request).await? {
        ClaimOutcome::Acquired(claim) => {
            store.complete(&claim, own, HOUR).await?;
            Some(own.clone())
        }
        ClaimOutcome::Completed(record) => Some(record.response),
        _ => None,
    })
}

fn killed(runtime: &Runtime) -> Result<(), BoxError> {
    let mut cluster = start_private_cluster("galera", &Options::new())?;
    let stores = runtime.block_on(stores(&cluster, Some(7)))?;
    let writers: Vec<_> = (0..NODES * 2)
        .map(|writer| runtime.spawn(work(stores.clone(), writer % NODES)))
        .collect();
    std::thread::sleep(Duration::from_millis(250));
    cluster.kill(2)?;
    let mut answers: HashMap<String, Response> = HashMap::new();
    for writer in writers {
        for (id, answer) in runtime.block_on(writer)?? {
            let first = answers.entry(id).or_insert_with(|| answer.clone());
            assert_eq!(*first, answer, "two answers for one key");
        }
    }
    assert_eq!(answers.len(), KEYS * 4);
    cluster.restart(2)?;
    cluster.wait_for_size(NODES)?;
    runtime.block_on(async {
        let joined =
            MySqlStore::connect(cluster.url(2), Config::new().with_wsrep_sync_wait(7)).await?;
        for (id, answer) in &answers {
            match joined.claim(&request(id)).await? {
                ClaimOutcome::Completed(record) => assert_eq!(record.response, *answer),
                other => {
                    return Err(format!("{} on the node that joined again", other.name()).into());
                }
            }
        }
        let fresh = joined
            .claim(&request("fresh"))
            .await?
            .acquired()
            .ok_or("a fresh key")?;
        Ok(joined.release(&fresh).await?)
    })
}

fn handed_on(runtime: &Runtime) -> Result<(), BoxError> {
    let cluster = start_private_cluster("galera", &Options::new())?;
    runtime.block_on(async {
        let stores = stores(&cluster, Some(7)).await?;
        for number in 0..200 {
            let [one, two, three] = [0, 1, 2].map(|place| &stores[(number + place) % NODES]);
            let request = request(format!("key-{number}"));
            let claim = one.claim(&request).await?.acquired().ok_or("a fresh key")?;
            let claim = two.renew(&claim, 2 * HOUR).await?;
            let response = Response::new(200, format!("answer {number}"));
            three.complete(&claim, &response, HOUR).await?;
            let again = ClaimRequest::new(request.key().clone(), *request.fingerprint());
            let ClaimOutcome::Completed(record) = one.claim(&again).await? else {
                return Err("not replayed".into());
            };
            assert_eq!(record.response, response);
        }
        Ok(())
    })
}

fn lagging(runtime: &Runtime) -> Result<(), BoxError> {
    // A node applies a commit within a millisecond, so the calls follow each other at once.
    const TRIES: usize = 5_000;
    let cluster = start_private_cluster("galera", &Options::new())?;
    runtime.block_on(async {
        let stores = stores(&cluster, None).await?;
        let (mut lost, mut stale) = (0, 0);
        for number in 0..TRIES {
            let [one, two, three] = [0, 1, 2].map(|place| &stores[(number + place) % NODES]);
            let request = request(format!("key-{number}"));
            let claim = one.claim(&request).await?.acquired().ok_or("a fresh key")?;
            let response = Response::new(200, format!("answer {number}"));
            match two.complete(&claim, &response, HOUR).await {
                Err(error) if error.kind() == ErrorKind::ClaimLost => {
                    lost += 1;
                    // Where it was claimed it is held.
                    one.complete(&claim, &response, HOUR).await?;
                }
                completed => completed?,
            }
            let again = ClaimRequest::new(request.key().clone(), *request.fingerprint());
            match three.claim(&again).await? {
                ClaimOutcome::Completed(record) => assert_eq!(record.response, response),
                ClaimOutcome::InFlight(_) => stale += 1,
                other => return Err(format!("{} instead of the winner", other.name()).into()),
            }
            if lost > 0 && stale > 0 {
                return Ok(());
            }
        }
        Err(
            format!("of {TRIES} completions {lost} lost, of as many duplicates {stale} stale")
                .into(),
        )
    })
}

fn delete_expired(runtime: &Runtime) -> Result<(), BoxError> {
    const RECORDS: usize = 300;
    let cluster = start_private_cluster("galera", &Options::new())?;
    runtime.block_on(async {
        let stores = stores(&cluster, Some(7)).await?;
        for number in 0..RECORDS {
            let request = request(format!("key-{number}"));
            let claim = stores[0].claim(&request).await?.acquired();
            stores[0].release(&claim.ok_or("a fresh key")?).await?;
        }
        let mut purges = JoinSet::new();
        for store in stores {
            purges.spawn(async move {
                let mut purged = 0;
                for _ in 0..RECORDS {
                    purged += store.delete_expired(20).await?;
                }
                Ok::<_, BoxError>(purged)
            });
        }
        let mut purged = 0;
        while let Some(done) = purges.join_next().await {
            purged += done??;
        }
        assert_eq!(purged, RECORDS as u64);
        Ok(())
    })
}

/// Claims keys of its own, one after the other, until told to end; returns those that failed without
/// an effect.
async fn claim_on(store: MySqlStore, writer: usize, ended: Arc<AtomicBool>) -> Vec<ClaimRequest> {
    let mut undone = Vec::new();
    for number in 0.. {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let request = request(format!("{writer}-{number}"));
        if let Err(error) = store.claim(&request).await {
            if error.effect() == Effect::None {
                undone.push(request);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    undone
}

fn evicted(runtime: &Runtime) -> Result<(), BoxError> {
    const CALLERS: usize = 48;
    const ROUNDS: usize = 3;
    let mut cluster = start_private_cluster("galera", &Options::new())?;
    let config = || {
        Config::new()
            .with_timeout(Duration::from_secs(60))
            .with_max_connections(CALLERS as u32)
            .with_wsrep_sync_wait(7)
    };
    let stores = runtime.block_on(stores(&cluster, Some(7)))?;
    for round in 0..ROUNDS {
        let store = runtime.block_on(MySqlStore::connect(cluster.url(0), config()))?;
        let ended = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| claim_on(store.clone(), round * CALLERS + caller, Arc::clone(&ended)))
            .map(|caller| runtime.spawn(caller))
            .collect();
        std::thread::sleep(Duration::from_millis(500));
        cluster.freeze(0)?;
        cluster.wait_for_size(NODES - 1)?;
        cluster.thaw(0)?;
        cluster.wait_for_size(NODES)?;
        ended.store(true, Ordering::Relaxed);
        for caller in callers {
            for request in runtime.block_on(caller)? {
                let record = runtime.block_on(stores[1].get(request.key()))?;
                if let Some(record) = record {
                    return Err(format!("{} was claimed: {record:?}", request.key().id()).into());
                }
            }
        }
    }
    Ok(())
}

/// A node that takes long to refuse a statement may have given it to the others, so the claim is in
/// doubt: the record that it finds may be its own, or that of an earlier call.
fn asked_again(runtime: &Runtime) -> Result<(), BoxError> {
    const ROUNDS: usize = 10;
    const PAUSE: Duration = Duration::from_millis(300);
    let mut cluster = start_private_cluster("galera", &Options::new())?;
    let config = Config::new().with_inserts_first(true);
    let store = runtime.block_on(async {
        let store = MySqlStore::connect(cluster.url(0), config).await?;
        store.migrate().await?;
        Ok::<_, BoxError>(store)
    })?;
    let pool = runtime.block_on(MySqlPool::connect(cluster.url(0)))?;
    let mut answers = 0;
    for round in 0..ROUNDS {
        let request = request(format!("key-{round}"));
        let first = runtime.block_on(store.claim(&request))?;
        let first = first.acquired().ok_or("a fresh key")?;
        let mut holder = runtime.block_on(pool.begin())?;
        let lock = "SELECT id FROM idem_records FOR UPDATE";
        runtime.block_on(sqlx::query(lock).execute(&mut *holder))?;
        cluster.freeze(0)?;
        let claim = runtime.spawn({
            let (store, request) = (store.clone(), request.clone());
            async move { store.claim(&request).await }
        });
        std::thread::sleep(PAUSE);
        cluster.thaw(0)?;
        // The insert has met the lock by now, and is sent again for a tenth of a second.
        std::thread::sleep(PAUSE / 10);
        runtime.block_on(holder.rollback())?;
        // A slow machine may take too long.
        let Ok(again) = runtime.block_on(claim)? else {
            continue;
        };
        let again = again.acquired().ok_or("the same attempt")?;
        if again.lease_ends_at() <= first.lease_ends_at() {
            return Err(format!("{first:?} is answered again with {again:?}").into());
        }
        answers += 1;
    }
    match answers {
        0 => Err("no claim was answered".into()),
        _ => Ok(()),
    }
}
