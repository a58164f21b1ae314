//! Masters that are killed and frozen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use idem_conformance::history::{Calls, Head, Recorded, Recorder, Seen, VERSION};
use idem_conformance::oracle::judge;
use idem_conformance::search::Bounds;
use idem_conformance::spec::Answer;
use idem_core::{ClaimOutcome, IdempotencyStore, Record, Response};
use idem_redis::{Config, RedisStore, Replicas};
use idem_servers::{Cluster, Options, start_private_cluster};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::own::{HOUR, Outcome, eventually, query, request};
use crate::slots::{master, store};

const KEYS: usize = 240;
const WRITERS: u32 = 6;
const MAX_WAIT: Duration = Duration::from_secs(90);

/// The replica of the first master acknowledges its keys, too: acknowledged writes survive it.
fn strict() -> Config {
    let replicas = Replicas::new(1, Duration::from_millis(500));
    Config::new()
        .with_replicas(replicas)
        .with_timeout(Duration::from_secs(3))
}

struct Writer {
    number: u32,
    store: Recorded<RedisStore>,
    /// The texts whose completion was acknowledged.
    sealed: Vec<String>,
}

impl Writer {
    /// Claims the key and completes it if the claim is its own; repeats the same after every error.
    async fn claim_and_complete(&mut self, id: &str) -> Outcome {
        let (request, started) = (request(id), Instant::now());
        let claim = loop {
            match self.store.claim(&request).await {
                Ok(ClaimOutcome::Acquired(claim)) => break claim,
                Ok(_) => return Ok(()),
                Err(error) if error.is_retryable() && started.elapsed() < MAX_WAIT => pause().await,
                Err(error) => return Err(error.into()),
            }
        };
        let text = format!("{id} by {}", self.number);
        loop {
            let response = Response::new(200, text.clone());
            match self.store.complete(&claim, &response, HOUR).await {
                Ok(()) => {
                    self.sealed.push(text);
                    return Ok(());
                }
                Err(error) if error.is_retryable() && started.elapsed() < MAX_WAIT => pause().await,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn write(mut writer: Writer) -> Outcome<Vec<String>> {
    for number in 0..KEYS {
        writer.claim_and_complete(&format!("{number}")).await?;
    }
    Ok(writer.sealed)
}

async fn role(cluster: &Cluster, node: usize) -> String {
    let returned: Outcome<String> = query(cluster.url(node), "INFO replication").await;
    let returned = returned.unwrap_or_default();
    let line = returned.lines().find_map(|line| line.strip_prefix("role:"));
    line.unwrap_or("none").trim().to_owned()
}

pub(crate) fn race(runtime: &Runtime) -> Outcome {
    let mut cluster = start_private_cluster("redis-cluster", &Options::new())?;
    let mut writers = JoinSet::new();
    let folder = tempfile::tempdir()?;
    let head = Head {
        v: VERSION,
        cell: "redis-cluster, one master killed".to_owned(),
        seed: 0,
        quantum: 1,
        asks_again: false,
        caches: false,
    };
    let recorder = Recorder::create(&folder.path().join("all.ndjson"), head)?;
    for number in 0..WRITERS {
        let store = runtime.block_on(store(&cluster, strict()))?;
        let writer = Writer {
            number,
            store: Recorded::new(store, recorder.clone()),
            sealed: Vec::new(),
        };
        writers.spawn_on(write(writer), runtime.handle());
    }
    let looking = runtime.block_on(store(&cluster, Config::new()))?;
    runtime.block_on(eventually("some are claimed", async || {
        matches!(looking.get(request("30").key()).await, Ok(Some(_)))
    }))?;
    cluster.kill(0)?;
    runtime.block_on(eventually("its replica leads", async || {
        role(&cluster, 3).await == "master"
    }))?;
    // Until it is back none of its keys can be acknowledged: they have no replica.
    cluster.restart(0)?;
    let mut sealed = BTreeSet::new();
    runtime.block_on(async {
        while let Some(written) = writers.join_next().await {
            sealed.extend(written??);
        }
        Outcome::Ok(())
    })?;
    let calls = Calls::read(folder.path())?;
    let judgement = judge(&calls.history()?, Bounds::default());
    assert!(judgement.is_accepted(), "{judgement}");
    let is_unknown = |seen: &&Seen| {
        let answer = seen.answer.as_ref().map(|answer| &answer.answer);
        matches!(answer, None | Some(Answer::Unknown))
    };
    let unknown = calls.seen.iter().filter(is_unknown).count();
    println!("{} answers, {unknown} of them unknown", calls.seen.len());
    let fresh = runtime.block_on(store(&cluster, Config::new()))?;
    runtime.block_on(all_is_well(&cluster, &fresh, &sealed))
}

/// All acknowledged writes are there, everything works, and the node that was killed has become a
/// replica.
async fn all_is_well(cluster: &Cluster, store: &RedisStore, sealed: &BTreeSet<String>) -> Outcome {
    assert_eq!(sealed.len(), KEYS, "each key was completed by one");
    for number in 0..KEYS {
        let Some(Record::Completed(record)) = store.get(request(format!("{number}")).key()).await?
        else {
            return Err(format!("{number} is lost").into());
        };
        let text = String::from_utf8_lossy(record.response.body()).into_owned();
        assert!(sealed.contains(&text), "{text}");
    }
    assert_eq!(role(cluster, 0).await, "slave");
    for number in 0..60 {
        let claim = store.claim(&request(format!("fresh {number}"))).await?;
        store
            .release(&claim.acquired().ok_or("a fresh key")?)
            .await?;
    }
    Ok(())
}

pub(crate) fn others(runtime: &Runtime) -> Outcome {
    undisturbed(runtime, Cluster::kill)
}

pub(crate) fn frozen(runtime: &Runtime) -> Outcome {
    undisturbed(runtime, Cluster::freeze)
}

/// Until its replica leads, and a little longer, keys of other masters are claimed, and keys of its
/// own, by the same store. Only its own keys fail.
fn undisturbed(
    runtime: &Runtime,
    stop: fn(&mut Cluster, usize) -> idem_servers::Result<()>,
) -> Outcome {
    // Otherwise every node refuses everything while one slot has no master.
    let options = Options::new().with_setting("cluster-require-full-coverage", "no");
    let mut cluster = start_private_cluster("redis-cluster", &options)?;
    let config = Config::new().with_timeout(Duration::from_secs(2));
    let store = runtime.block_on(store(&cluster, config))?;
    let mut failed: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    runtime.block_on(claim_some(&store, 0, &mut failed));
    assert!(failed.is_empty(), "{failed:?}");
    stop(&mut cluster, 0)?;
    let (mut round, mut leads) = (1, 0);
    while leads < 3 {
        runtime.block_on(claim_some(&store, round, &mut failed));
        leads += u32::from(runtime.block_on(role(&cluster, 3)) == "master");
        round += 1;
        assert!(round < 1000, "its replica does not lead");
    }
    let of_its_own = failed.remove(&0).unwrap_or_default();
    println!("{round} rounds, {} of its own failed", of_its_own.len());
    let others: Vec<_> = failed.values().flatten().collect();
    assert!(
        others.is_empty(),
        "{} of the others failed: {}",
        others.len(),
        others[0]
    );
    runtime.block_on(eventually("its keys are claimed again", async || {
        round += 1;
        let mut failed = BTreeMap::new();
        claim_some(&store, round, &mut failed).await;
        failed.is_empty()
    }))
}

/// Claims 30 fresh keys at once; counts the errors by master.
async fn claim_some(store: &RedisStore, round: u32, failed: &mut BTreeMap<usize, Vec<String>>) {
    let mut claims = JoinSet::new();
    for number in 0..30 {
        let (store, request) = (store.clone(), request(format!("{round}-{number}")));
        claims.spawn(async move {
            let claimed = store.claim(&request).await;
            (master(&request), claimed.map(|outcome| outcome.name()))
        });
    }
    for (master, claimed) in claims.join_all().await {
        match claimed {
            Ok(outcome) => assert_eq!(outcome, "acquired"),
            Err(error) => failed.entry(master).or_default().push(error.to_string()),
        }
    }
}
