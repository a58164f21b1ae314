//! Cells with fail-overs: callers on a group of servers whose leader is lost.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use idem_core::{BoxError, Claim, ClaimRequest, Fingerprint, IdempotencyStore, Key, Response};
use idem_postgres::Replays;
use tokio::task::JoinSet;

use super::galera::{Galera, Loss};
use super::group::Group;
use super::group_replication::Members;
use super::patroni::{Managed, Nodes};
use super::router::{Router, address_of};
use super::semi_sync::{SemiSync, Without};
use super::sentinel::Watched;
use super::{kept, postgres, redis, redis_cluster};
use crate::cells::progress::Progress;
use crate::cells::{CellSpec, Expects, Need, READERS, Ran, Segment};
use crate::flow::{self, Flow};
use crate::history::{Fault, Head, Outcome, Recorded, Recorder, VERSION, monotonic};
use crate::nemesis::sockets;
use crate::traffic::{Plan, Turn, drive_until, keys_of};

/// How long keys are used before others take their place.
const TURN: Duration = Duration::from_millis(200);

/// The longest lease.
const LEASE: Duration = Duration::from_millis(400);

/// How long most results are kept: longer than every segment, so that a lost one is missed.
const KEPT: Duration = Duration::from_secs(3_600);

/// The acknowledged claims and results before and after each fail-over.
const BETWEEN: u64 = 200;

/// Those that the servers to come do not have.
const BEHIND: u64 = 50;

/// The calls that are sent while every write waits in vain.
const IN_VAIN: u64 = 20;

/// The keys whose completions wait for the replica, beside the callers' own.
const WAITING: u64 = 12;

/// The keys of so many turns are read before a leader is lost whose writes wait.
const READ_BACK: u64 = 20;

/// How long a condition may take.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A group of servers, and how its leader is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailOver {
    /// PostgreSQL with an asynchronous standby, which is down for a while before.
    PostgresAsync,
    /// PostgreSQL with a synchronous standby that follows.
    PostgresSync,
    /// The same with a standby that is down. The primary crashes while commits wait, recovers, and
    /// is read before it is lost.
    PostgresWaiting {
        /// Whether answers that rest on such a commit wait, too.
        replicated: bool,
    },
    /// PostgreSQL under Patroni.
    Patroni(Managed),
    /// Redis or Valkey, whose replica is cut off for a while before.
    Redis(&'static str),
    /// The same with `with_replicas` for the replica, which follows.
    RedisReplicas(&'static str),
    /// The same with a replica that is cut off, so that every write waits.
    RedisWaiting(&'static str),
    /// Redis Cluster; one master's replica is cut off for a while before.
    RedisCluster,
    /// The same with `with_replicas`, and replicas that follow.
    RedisClusterReplicas,
    /// The same with a replica that is cut off, so that the writes of its master wait.
    RedisClusterWaiting,
    /// Redis with a Sentinel that promotes the replica, which is cut off for a while before.
    Sentinel,
    /// The same with `with_replicas` for the replica, which follows.
    SentinelReplicas,
    /// MySQL with a semi-synchronous replica. With a source that goes on without it, the replica
    /// is cut off for a while before.
    SemiSync(Without),
    /// MySQL Group Replication, whose callers use the primary.
    GroupReplication,
    /// MariaDB Galera, whose callers use one node, which is lost like this.
    Galera(Loss),
}

impl FailOver {
    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            Self::PostgresAsync
            | Self::Redis(_)
            | Self::RedisCluster
            | Self::Sentinel
            | Self::Patroni(Managed::Asynchronous)
            | Self::SemiSync(Without::GoOn) => {
                "replica down for a while; leader SIGKILL, replica promoted"
            }
            Self::PostgresSync
            | Self::RedisReplicas(_)
            | Self::RedisClusterReplicas
            | Self::SentinelReplicas
            | Self::Patroni(Managed::Synchronous)
            | Self::SemiSync(Without::Wait) => "leader SIGKILL, replica promoted",
            Self::Patroni(Managed::Alone) => {
                "replica down; leader SIGKILL, replica back, which must not lead; leader back"
            }
            Self::GroupReplication => "primary SIGKILL, another elected",
            Self::Galera(Loss::Kill) => "node SIGKILL, callers go to another",
            Self::Galera(Loss::Stop) => "node SIGSTOP until it is evicted, callers go to another",
            Self::Galera(Loss::Cut) => "node cut off from the others, callers go to another",
            Self::PostgresWaiting { .. } => {
                "standby down, primary SIGKILL, restart, reads; primary SIGKILL, standby promoted"
            }
            Self::RedisWaiting(_) | Self::RedisClusterWaiting => {
                "replica cut off, reads; leader SIGKILL, replica promoted"
            }
        }
    }

    pub(crate) fn needs(self) -> Vec<Need> {
        let server = match self {
            Self::PostgresAsync | Self::PostgresSync | Self::PostgresWaiting { .. } => "postgres",
            Self::Patroni(_) => "patroni",
            Self::Redis(server) | Self::RedisReplicas(server) | Self::RedisWaiting(server) => {
                server
            }
            Self::RedisCluster | Self::RedisClusterReplicas | Self::RedisClusterWaiting => {
                "redis-cluster"
            }
            Self::Sentinel | Self::SentinelReplicas => "redis-sentinel",
            Self::SemiSync(_) | Self::GroupReplication => "mysql",
            Self::Galera(_) => "galera",
        };
        // Those of others bring all that they need.
        let also: &[_] = match self {
            Self::Patroni(_) => &[Need::Server("postgres"), Need::Server("etcd")],
            _ => &[],
        };
        [&[Need::Signals, Need::Server(server)], also].concat()
    }

    async fn start(self) -> Result<Box<dyn Group>, BoxError> {
        Ok(match self {
            Self::PostgresAsync => {
                let commits = postgres::Commits::Alone;
                Box::new(postgres::Streaming::start(commits, Replays::Committed).await?)
            }
            Self::PostgresSync | Self::PostgresWaiting { .. } => {
                let commits = postgres::Commits::WithStandby;
                let replays = match self {
                    Self::PostgresWaiting { replicated: true } => Replays::Replicated,
                    _ => Replays::Committed,
                };
                Box::new(postgres::Streaming::start(commits, replays).await?)
            }
            Self::Patroni(managed) => Box::new(Nodes::start(managed).await?),
            Self::Redis(product) => Box::new(redis::Replicated::start(product, false).await?),
            Self::RedisReplicas(product) | Self::RedisWaiting(product) => {
                Box::new(redis::Replicated::start(product, true).await?)
            }
            Self::RedisCluster => Box::new(redis_cluster::Nodes::start(false)?),
            Self::RedisClusterReplicas | Self::RedisClusterWaiting => {
                Box::new(redis_cluster::Nodes::start(true)?)
            }
            Self::Sentinel => Box::new(Watched::start(false).await?),
            Self::SentinelReplicas => Box::new(Watched::start(true).await?),
            Self::SemiSync(without) => Box::new(SemiSync::start(without).await?),
            Self::GroupReplication => Box::new(Members::start().await?),
            Self::Galera(loss) => Box::new(Galera::start(loss).await?),
        })
    }

    /// Returns whether the replica is away before the leader is lost.
    fn is_cut(self) -> bool {
        !matches!(
            self,
            Self::PostgresSync
                | Self::Patroni(Managed::Synchronous)
                | Self::RedisReplicas(_)
                | Self::RedisClusterReplicas
                | Self::SentinelReplicas
                | Self::SemiSync(Without::Wait)
                | Self::GroupReplication
                | Self::Galera(_)
        )
    }

    /// Returns whether every write then waits for it.
    fn waits(self) -> bool {
        matches!(
            self,
            Self::PostgresWaiting { .. } | Self::RedisWaiting(_) | Self::RedisClusterWaiting
        )
    }

    /// Returns whether callers see writes that wait, and only the answers count that the store
    /// promises to keep.
    fn shows_waiting(self) -> bool {
        matches!(
            self,
            Self::PostgresWaiting { replicated: true }
                | Self::RedisReplicas(_)
                | Self::RedisWaiting(_)
                | Self::RedisClusterReplicas
                | Self::RedisClusterWaiting
                | Self::SentinelReplicas
        )
    }

    /// Returns whether its claims write with one statement and read with another.
    fn asks_again(self) -> bool {
        matches!(
            self,
            Self::SemiSync(_) | Self::GroupReplication | Self::Galera(_)
        )
    }
}

/// Runs such a cell.
///
/// # Errors
///
/// Those of the harness.
pub(crate) async fn run(
    fail_over: FailOver,
    cell: &CellSpec,
    segment: Segment,
    folder: &Path,
) -> Result<Ran, BoxError> {
    std::fs::create_dir_all(folder)?;
    let group = fail_over.start().await?;
    let product = group.product();
    let head = Head {
        v: VERSION,
        cell: format!("{}, {product}", cell.name),
        seed: segment.seed,
        quantum: 1,
        asks_again: fail_over.asks_again(),
        caches: false,
    };
    let file = folder.join("0.ndjson");
    let recorder = Recorder::create(&file, head)?;
    let mut router = None;
    let mut url = group.leader().to_owned();
    if group.is_routed() {
        let started = Router::start(&url).await?;
        url = started.in_front_of(&url)?;
        router = Some(started);
    }
    let store = group.store(&url).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let plan = Plan {
        seed: segment.seed,
        callers: segment.workers.max(1) * segment.callers.max(1),
        steps: u64::MAX,
        turn: Turn::Time(TURN),
        lease: LEASE,
        kept: Some(KEPT),
        back: 20,
        patience: Duration::from_secs(15),
        ..Plan::default()
    };
    let first = Turn::generation_at(monotonic(), TURN);
    let recorded = Arc::new(Recorded::new(store, recorder.clone()));
    let flow = Arc::new(Flow::new(
        Arc::clone(&recorded) as Arc<dyn IdempotencyStore>,
        segment.seed,
        Arc::clone(&stop),
    ));
    let mut fresh = JoinSet::new();
    for caller in 0..segment.fresh {
        fresh.spawn(Arc::clone(&flow).run(caller));
    }
    let traffic = tokio::spawn(drive_until(recorded, plan, Arc::clone(&stop)));
    let mut stage = Stage {
        fail_over,
        group,
        router,
        recorder: recorder.clone(),
        progress: Progress::new(folder),
        loses: cell.expects == Expects::Loss,
        faults: Vec::new(),
        own: Vec::new(),
    };
    let played = stage.play(segment).await;
    stop.store(true, Ordering::Relaxed);
    traffic.await?;
    fresh.join_all().await;
    played?;
    let Stage {
        group,
        router,
        faults,
        own,
        ..
    } = stage;
    // What callers have dropped takes effect before the keys are read, or never. The follower stays.
    if let Some(router) = router {
        drop(router);
        sockets::wait_until_left(address_of(group.leader())?.port(), 1)?;
    }
    let recorded = Recorded::new(group.store(group.leader()).await?, recorder);
    let last = Turn::generation_at(monotonic(), TURN);
    let turns = first.saturating_sub(plan.back)..=last;
    let shared = turns.flat_map(|turn| keys_of(turn, plan.keys));
    let used = flow::used(folder, &[segment.seed])?;
    let reads = stream::iter(own.into_iter().chain(shared).chain(used)).map(|key| {
        let recorded = &recorded;
        async move { recorded.get(&key).await.map(drop) }
    });
    reads.buffer_unordered(READERS).try_collect::<()>().await?;
    if fail_over.shows_waiting() {
        kept::keep_promised(&file)?;
    }
    Ok(Ran {
        product,
        settings: group.settings(),
        faults,
        gone: None,
        rows: 0,
        torn: Vec::new(),
    })
}

/// A group under callers.
struct Stage {
    fail_over: FailOver,
    group: Box<dyn Group>,
    router: Option<Router>,
    recorder: Recorder,
    progress: Progress,
    loses: bool,
    faults: Vec<Fault>,
    /// The keys that no caller has.
    own: Vec<Key>,
}

impl Stage {
    /// Loses leaders as often and as long as the segment says.
    async fn play(&mut self, segment: Segment) -> Result<(), BoxError> {
        let ends = Instant::now() + segment.time;
        while segment.goes_on(&self.faults, ends) {
            self.proceed(BETWEEN).await?;
            let c0 = monotonic();
            let proof = self.lose_leader().await?;
            let c1 = monotonic();
            // What is lost is lost by now: a shorter time explains less, and is searched faster.
            self.group.add_replica().await?;
            let fault = Fault {
                what: self.fail_over.in_words().to_owned(),
                on: "leader".to_owned(),
                outcome: Outcome::Installed { proof },
                c0,
                c1,
                loses: self.loses,
                takes_back: false,
                sets_clock: false,
            };
            self.recorder.fault(fault.clone())?;
            self.faults.push(fault);
        }
        self.proceed(BETWEEN).await
    }

    /// Returns what shows that the leader was lost.
    async fn lose_leader(&mut self) -> Result<String, BoxError> {
        let mut proof = String::new();
        if self.fail_over.is_cut() {
            let waiting = match self.fail_over.waits() {
                true => self.claim_some().await?,
                false => Vec::new(),
            };
            self.group.cut().await?;
            if self.fail_over.waits() {
                self.complete_in_vain(waiting).await?;
                self.group.wait_for_waiting().await?;
                // Each connection lets one write wait at a time; those that gave up count, too.
                self.go_on(IN_VAIN).await?;
                let waiting = self.group.show_waiting().await?;
                self.read_back().await?;
                proof = format!("{waiting} sessions waited for the replica; ");
            } else {
                self.proceed(BEHIND).await?;
                proof = format!("{BEHIND} acknowledgements without the replica; ");
            }
        }
        let lost = self.group.fail_over().await?;
        if let Some(router) = &self.router {
            router.turn_to(self.group.leader())?;
        }
        Ok(format!("{proof}{lost}"))
    }

    /// Claims keys that no caller has.
    async fn claim_some(&mut self) -> Result<Vec<Claim>, BoxError> {
        let store = self.group.store(self.group.leader()).await?;
        let recorded = Recorded::new(store, self.recorder.clone());
        let mut claims = Vec::new();
        for number in 0..WAITING {
            let id = format!("{}-{number}", self.faults.len());
            let key = Key::new("prove", "waiting", id)?;
            self.own.push(key.clone());
            let request = ClaimRequest::new(key, Fingerprint::raw("1")).with_lease(KEPT);
            let claim = recorded.claim(&request).await?.acquired();
            claims.push(claim.ok_or("the key is fresh")?);
        }
        Ok(claims)
    }

    /// Completes them, without waiting for an answer.
    async fn complete_in_vain(&self, claims: Vec<Claim>) -> Result<(), BoxError> {
        let store = self.group.store(self.group.leader()).await?;
        let recorded = Arc::new(Recorded::new(store, self.recorder.clone()));
        for claim in claims {
            let recorded = Arc::clone(&recorded);
            tokio::spawn(async move {
                let response = Response::new(200, "in vain");
                // An error is in the history.
                let _ = recorded.complete(&claim, &response, KEPT).await;
            });
        }
        Ok(())
    }

    /// Reads what waiting writes have left on the leader.
    async fn read_back(&self) -> Result<(), BoxError> {
        let leader = self.group.leader();
        let reader = self.group.reader(leader).await?;
        let recorded = Arc::new(Recorded::new(reader, self.recorder.clone()));
        let last = Turn::generation_at(monotonic(), TURN);
        // The latest first: in a cluster the reads of a node wait one after the other.
        let turns = (last.saturating_sub(READ_BACK)..=last).rev();
        let mut reads = JoinSet::new();
        let callers = turns.flat_map(|turn| keys_of(turn, Plan::default().keys));
        for key in self.own.iter().rev().cloned().chain(callers) {
            let recorded = Arc::clone(&recorded);
            // An error is in the history.
            reads.spawn(async move { drop(recorded.get(&key).await) });
        }
        while let Some(read) = reads.join_next().await {
            read?;
        }
        Ok(())
    }

    /// Waits until the store has acknowledged so many more.
    async fn proceed(&mut self, acknowledged: u64) -> Result<(), BoxError> {
        let what = "acknowledgements";
        self.wait_for_more(what, acknowledged, |progress| progress.acknowledged)
            .await
    }

    /// Waits until so many more calls were sent.
    async fn go_on(&mut self, calls: u64) -> Result<(), BoxError> {
        self.wait_for_more("calls", calls, |progress| progress.sent)
            .await
    }

    async fn wait_for_more(
        &mut self,
        what: &str,
        more: u64,
        count: fn(&Progress) -> u64,
    ) -> Result<(), BoxError> {
        self.progress.look()?;
        let aim = count(&self.progress) + more;
        let deadline = Instant::now() + MAX_WAIT;
        while count(&self.progress) < aim {
            if Instant::now() > deadline {
                let missing = aim - count(&self.progress);
                return Err(format!("{missing} of {more} {what} missing").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.progress.look()?;
        }
        Ok(())
    }
}
