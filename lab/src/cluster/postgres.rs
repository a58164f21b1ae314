//! PostgreSQL with a streaming standby.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{BoxError, Claim, ClaimRequest, IdempotencyStore};
use idem_postgres::sqlx::{self, Connection as _, PgConnection, Row as _};
use idem_postgres::{Config, PostgresStore, Replays};
use idem_servers::{Instance, Options, PostgresStandby, start_private};
use tokio::task::JoinHandle;

use super::group::{Group, Store};
use super::scene::{Caller, HOUR, Scene, Told, eventually, is_gone, request, write};
use crate::history::Recorded;

/// A primary and its standby.
#[derive(Debug)]
pub struct Pair {
    primary: Instance,
    standby: Instance,
}

/// Whether commits wait for the standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commits {
    /// `synchronous_commit = on` without a synchronous standby: the primary alone decides.
    Alone,
    /// `synchronous_standby_names` names the standby, and `synchronous_commit = remote_apply`.
    WithStandby,
}

impl Commits {
    /// Returns how to start a server.
    fn options(self) -> Options {
        let waits = match self {
            Self::Alone => "on",
            Self::WithStandby => "remote_apply",
        };
        // Killed processes leave their files as they are: nothing has to be forced to disk.
        Options::new().with_setting("synchronous_commit", waits)
    }

    /// Starts a standby of the primary at this URL, and waits until it streams.
    async fn follow(self, primary: &str) -> Result<Instance, BoxError> {
        let options = self.options().with_upstream(primary);
        let standby = start_private("postgres-standby", &options)?;
        let (names, state) = match self {
            Self::Alone => ("", "async"),
            Self::WithStandby => (PostgresStandby::NAME, "sync"),
        };
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        query(primary, &set).await?;
        query(primary, "SELECT pg_reload_conf()").await?;
        let streams = format!(
            "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '{state}'"
        );
        eventually("the standby streams", || async {
            Ok(query(primary, &streams).await? == 1)
        })
        .await?;
        Ok(standby)
    }
}

impl Pair {
    /// Starts both, with the store's tables.
    ///
    /// # Errors
    ///
    /// Those of the servers.
    pub async fn start(commits: Commits) -> Result<Self, BoxError> {
        let primary = start_private("postgres", &commits.options())?;
        let store = PostgresStore::connect(primary.url(), Config::new()).await?;
        store.migrate().await?;
        let standby = commits.follow(primary.url()).await?;
        Ok(Self { primary, standby })
    }

    /// Returns the primary's URL.
    #[must_use]
    pub fn leader(&self) -> &str {
        self.primary.url()
    }

    /// Returns name and version of the product.
    #[must_use]
    pub fn product(&self) -> String {
        self.primary.product().to_string()
    }

    /// Waits until this many sessions of the primary wait for the standby.
    async fn waiting(&self, sessions: usize) -> Result<(), BoxError> {
        eventually("commits wait for the standby", || async {
            Ok(query(self.primary.url(), WAITING).await? >= sessions)
        })
        .await
    }

    /// Kills the primary and promotes the standby.
    async fn fail_over(&mut self, standby: Standby) -> Result<(), BoxError> {
        self.primary.kill()?;
        if standby == Standby::Down {
            self.standby.restart()?;
        }
        let url = self.standby.url();
        query(url, "SELECT pg_promote()").await?;
        eventually("the standby takes writes", || async {
            let sql = "SELECT 1 WHERE NOT pg_is_in_recovery()";
            Ok(query(url, sql).await? == 1)
        })
        .await
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standby {
    Up,
    Down,
}

const WAITING: &str = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/// Returns the number of rows.
pub(super) async fn query(url: &str, sql: &str) -> Result<usize, BoxError> {
    let mut connection = PgConnection::connect(url).await?;
    let rows = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned()))
        .fetch_all(&mut connection)
        .await?;
    connection.close().await?;
    Ok(rows.iter().filter(|row| !row.is_empty()).count())
}

/// A completion waits for the standby, which is down, and the primary crashes. Its recovery makes
/// the commit visible although no standby has it. Somebody calls; then the primary is lost, and
/// the standby takes its place.
///
/// # Errors
///
/// Those of the servers; an answer that no configuration explains.
pub async fn crash_of_a_waiting_commit(
    folder: &Path,
    seed: u64,
    config: &Config,
    caller: Caller,
) -> Result<Told, BoxError> {
    let mut stage = Stage::begin(folder, seed, config, caller).await?;
    let writing = stage.write();
    stage.pair.waiting(1).await?;
    stage.pair.primary.kill()?;
    if writing.await?.is_ok() {
        return Err("the write was acknowledged without a standby".into());
    }
    stage.pair.primary.restart()?;
    stage.call_and_fail_over().await
}

/// The same, but somebody ends the wait by `pg_cancel_backend`. It then answers the
/// completion with success and a warning.
///
/// # Errors
///
/// Those of the servers; an answer that no configuration explains.
pub async fn cancel_of_a_waiting_commit(
    folder: &Path,
    seed: u64,
    config: &Config,
    caller: Caller,
) -> Result<Told, BoxError> {
    let stage = Stage::begin(folder, seed, config, caller).await?;
    let writing = stage.write();
    stage.pair.waiting(1).await?;
    let cancel = format!("SELECT pg_cancel_backend(pid) FROM ({WAITING}) AS waiting");
    query(stage.pair.primary.url(), &cancel).await?;
    writing.await??;
    stage.call_and_fail_over().await
}

/// A key of which no standby will have the next write.
struct Stage {
    pair: Pair,
    scene: Scene,
    config: Config,
    caller: Caller,
    store: Arc<Recorded<PostgresStore>>,
    request: ClaimRequest,
    claim: Option<Claim>,
}

impl Stage {
    async fn begin(
        folder: &Path,
        seed: u64,
        config: &Config,
        caller: Caller,
    ) -> Result<Self, BoxError> {
        let mut pair = Pair::start(Commits::WithStandby).await?;
        let cell = format!("{}, remote_apply to a standby", pair.product());
        let scene = Scene::begin(folder, &cell, seed)?;
        // The time-out is not the subject.
        let config = config.clone().with_timeout(HOUR);
        let request = request(format!("{seed}"))?;
        let store = PostgresStore::connect(pair.primary.url(), config.clone()).await?;
        let store = Arc::new(scene.recorded(store));
        let claim = caller.claim_first(&*store, &request).await?;
        // Killed, not stopped: nothing that was sent to it waits in a socket.
        pair.standby.kill()?;
        Ok(Self {
            pair,
            scene,
            config,
            caller,
            store,
            request,
            claim,
        })
    }

    fn write(&self) -> JoinHandle<idem_core::Result<()>> {
        let (store, request) = (Arc::clone(&self.store), self.request.clone());
        let claim = self.claim.clone();
        tokio::spawn(async move { write(&*store, &request, claim.as_ref()).await })
    }

    /// Lets somebody call until it has an answer or waits, and fails over.
    async fn call_and_fail_over(mut self) -> Result<Told, BoxError> {
        let store = PostgresStore::connect(self.pair.primary.url(), self.config.clone()).await?;
        let store = self.scene.recorded(store);
        let (request, claim) = (self.request.clone(), self.claim.clone());
        let mut calling = tokio::spawn(self.caller.call(store, request, claim));
        let answered = tokio::select! {
            told = &mut calling => Some(told??),
            waited = self.pair.waiting(1) => waited.map(|()| None)?,
        };
        let fault = self.pair.fail_over(Standby::Down);
        self.scene.fail_over(fault).await?;
        let told = match answered {
            Some(told) => told,
            None => calling.await??,
        };
        let store = PostgresStore::connect(self.pair.standby.url(), self.config).await?;
        let store = self.scene.recorded(store);
        let record = store.get(self.request.key()).await?;
        is_gone(record.as_ref(), self.claim.as_ref())?;
        Ok(told)
    }
}

/// How long a caller of a cell waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How long one waits that only looks what is visible.
const GLANCE: Duration = Duration::from_millis(300);

/// So many callers of a cell wait for the standby before the primary crashes.
const WAITERS: usize = 4;

/// A primary and its standby, under callers.
pub(crate) struct Streaming {
    pair: Pair,
    commits: Commits,
    replays: Replays,
    standby: Standby,
    is_promoted: bool,
}

impl Streaming {
    /// Starts both.
    pub(crate) async fn start(commits: Commits, replays: Replays) -> Result<Self, BoxError> {
        Ok(Self {
            pair: Pair::start(commits).await?,
            commits,
            replays,
            standby: Standby::Up,
            is_promoted: false,
        })
    }

    async fn open(&self, url: &str, timeout: Duration) -> Result<Store, BoxError> {
        let config = Config::new()
            .with_timeout(timeout)
            .with_replays(self.replays);
        Ok(Arc::new(PostgresStore::connect(url, config).await?))
    }
}

#[async_trait]
impl Group for Streaming {
    fn product(&self) -> String {
        self.pair.product()
    }

    fn settings(&self) -> String {
        let commits = match self.commits {
            Commits::Alone => "asynchronous standby",
            Commits::WithStandby => "synchronous standby, synchronous_commit=remote_apply",
        };
        format!("{commits}, Replays::{:?}", self.replays)
    }

    fn leader(&self) -> &str {
        match self.is_promoted {
            true => self.pair.standby.url(),
            false => self.pair.primary.url(),
        }
    }

    fn is_routed(&self) -> bool {
        true
    }

    async fn store(&self, url: &str) -> Result<Store, BoxError> {
        self.open(url, TIMEOUT).await
    }

    async fn reader(&self, url: &str) -> Result<Store, BoxError> {
        self.open(url, GLANCE).await
    }

    async fn cut(&mut self) -> Result<(), BoxError> {
        self.standby = Standby::Down;
        Ok(self.pair.standby.kill()?)
    }

    async fn wait_for_waiting(&self) -> Result<(), BoxError> {
        self.pair.waiting(WAITERS).await
    }

    /// Other sessions do not see a commit that waits, until the server has recovered from a crash.
    async fn show_waiting(&mut self) -> Result<usize, BoxError> {
        let waiting = query(self.pair.primary.url(), WAITING).await?;
        self.pair.primary.kill()?;
        self.pair.primary.restart()?;
        Ok(waiting)
    }

    async fn fail_over(&mut self) -> Result<String, BoxError> {
        let lost = self.leader().to_owned();
        self.pair.fail_over(self.standby).await?;
        self.is_promoted = true;
        Ok(format!("{lost} was killed, {} leads", self.leader()))
    }

    async fn add_replica(&mut self) -> Result<(), BoxError> {
        let standby = self.commits.follow(self.pair.standby.url()).await?;
        let primary = std::mem::replace(&mut self.pair.standby, standby);
        self.pair.primary = primary;
        self.standby = Standby::Up;
        self.is_promoted = false;
        Ok(())
    }
}
