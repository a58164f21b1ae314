//! Masters that are killed and frozen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_conformance::history::{Answer, Call, Clock, Event, Op};
use idem_conformance::oracle;
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
    store: RedisStore,
    clock: Arc<Clock>,
    history: Vec<Event>,
}

impl Writer {
    fn record(&mut self, mut call: Call, invoked_ns: u64, answer: Answer) {
        call.invoked_ns = invoked_ns;
        let returned_ns = self.clock.now();
        self.history.push(Event {
            call,
            answer,
            returned_ns,
        });
    }

    /// Claims the key and completes it if the claim is its own; repeats the same after every error.
    async fn claim_and_complete(&mut self, id: &str) -> Outcome {
        let (request, started) = (request(id), Instant::now());
        let claim = loop {
            let invoked = self.clock.now();
            let outcome = self.store.claim(&request).await;
            let call = Call::of_claim(self.number, &request);
            self.record(call, invoked, Answer::to_claim(&outcome));
            match outcome {
                Ok(ClaimOutcome::Acquired(claim)) => break claim,
                Ok(_) => return Ok(()),
                Err(error) if error.is_retryable() && started.elapsed() < MAX_WAIT => pause().await,
                Err(error) => return Err(error.into()),
            }
        };
        let text = format!("{id} by {}", self.number);
        loop {
            let invoked = self.clock.now();
            let response = Response::new(200, text.clone());
            let done = self.store.complete(&claim, &response, HOUR).await;
            let call = Call::of_holder(self.number, Op::Complete, &claim, HOUR);
            self.record(call.with_sealed(&text), invoked, Answer::to_holder(&done));
            match done {
                Ok(()) => return Ok(()),
                Err(error) if error.is_retryable() && started.elapsed() < MAX_WAIT => pause().await,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn write(mut writer: Writer) -> Outcome<Vec<Event>> {
    for number in 0..KEYS {
        writer.claim_and_complete(&format!("{number}")).await?;
    }
    Ok(writer.history)
}

async fn role(cluster: &Cluster, node: usize) -> String {
    let returned: Outcome<String> = query(cluster.url(node), "INFO replication").await;
    let returned = returned.unwrap_or_default();
    let line = returned.lines().find_map(|line| line.strip_prefix("role:"));
    line.unwrap_or("none").trim().to_owned()
}

pub(crate) fn race(runtime: &Runtime) -> Outcome {
    let mut cluster = start_private_cluster("redis-cluster", &Options::new())?;
    let (mut writers, clock) = (JoinSet::new(), Arc::new(Clock::start()));
    for number in 0..WRITERS {
        let store = runtime.block_on(store(&cluster, strict()))?;
        let (clock, history) = (Arc::clone(&clock), Vec::new());
        let writer = Writer {
            number,
            store,
            clock,
            history,
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
    let mut history = Vec::new();
    runtime.block_on(async {
        while let Some(written) = writers.join_next().await {
            history.extend(written??);
        }
        Outcome::Ok(())
    })?;
    let violations = oracle::judge(&history, Duration::from_micros(1));
    assert!(
        violations.is_empty(),
        "{} of {}: {}",
        violations.len(),
        history.len(),
        violations[0]
    );
    let unknown = history
        .iter()
        .filter(|event| event.answer.is_unknown())
        .count();
    println!("{} answers, {unknown} of them unknown", history.len());
    let fresh = runtime.block_on(store(&cluster, Config::new()))?;
    runtime.block_on(all_is_well(&cluster, &fresh, &history))
}

/// All acknowledged writes are there, everything works, and the node that was killed has become a
/// replica.
async fn all_is_well(cluster: &Cluster, store: &RedisStore, history: &[Event]) -> Outcome {
    let done = |event: &&Event| event.call.op == Op::Complete && event.answer == Answer::Done;
    let sealed: BTreeSet<_> = history
        .iter()
        .filter(done)
        .map(|event| &event.call.sealed)
        .collect();
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
