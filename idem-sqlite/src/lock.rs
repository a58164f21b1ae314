//! [`Gate`] and [`Wait`]: which caller waits for the write lock, and how long.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::sqlx::CloseUnlessDone;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Sqlite};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use crate::error::{Access, classify};
use crate::pools::{Pools, connection};

/// The pause before a statement that has found the write lock taken tries again. SQLite's own
/// handler waits longer with each try, up to 100 ms.
const PAUSE: Duration = Duration::from_millis(1);

/// How long the lock counts as taken after the first wait in vain; each further wait in vain
/// doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long one caller waits for the write lock while nobody commits. Every write takes that lock,
/// so the wait is longer than for a row of a server: a slow disk may hold it for a few hundred
/// milliseconds.
pub(crate) const MAX_LOCK_WAIT: Duration = Duration::from_millis(500);

/// SQLite has one write lock for all keys, so an open transaction that writes blocks all other
/// writers. One caller of the store at a time waits for the lock. When nobody has committed for
/// [`MAX_LOCK_WAIT`], the others get `Contention` at once, for a while.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    turn: Arc<tokio::sync::Mutex<()>>,
    taken: Mutex<Option<Taken>>,
}

/// The state of a lock after a wait in vain.
#[derive(Debug, Clone, Copy)]
struct Taken {
    until: Instant,
    pause: Duration,
}

impl Gate {
    /// Returns the right to wait for the lock, which ends when it is dropped.
    async fn turn(&self) -> Result<OwnedMutexGuard<()>> {
        let turn = &self.0.turn;
        match *self.taken() {
            Some(taken) if Instant::now() < taken.until => return Err(contention()),
            // One caller tries whether the lock is still taken; the others do not wait for that
            // caller.
            Some(_) => return Arc::clone(turn).try_lock_owned().map_err(|_| contention()),
            None => {}
        }
        let turn = Arc::clone(turn).lock_owned().await;
        let is_taken = self.taken().is_some();
        match is_taken {
            true => Err(contention()),
            false => Ok(turn),
        }
    }

    fn found_taken(&self) {
        let mut taken = self.taken();
        let pause = taken.map_or(FIRST_PAUSE, |taken| (taken.pause * 2).min(LONGEST_PAUSE));
        let until = Instant::now() + pause;
        *taken = Some(Taken { until, pause });
    }

    /// Notes that a write succeeded.
    pub(crate) fn found_free(&self) {
        *self.taken() = None;
    }

    fn taken(&self) -> MutexGuard<'_, Option<Taken>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a caller waits for the lock: it shares the turn.
    pub(crate) fn is_waited_for(&self) -> bool {
        Arc::strong_count(&self.0.turn) > 1
    }
}

fn contention() -> Error {
    Error::new(
        ErrorKind::Contention,
        Effect::None,
        format!(
            "an open transaction has held the write lock of the database for {} ms (SQLite has one for all keys); ask \
             again when it has ended",
            MAX_LOCK_WAIT.as_millis()
        ),
    )
}

/// One caller's wait for the lock.
#[derive(Debug)]
pub(crate) struct Wait<'p> {
    pools: &'p Pools,
    _turn: OwnedMutexGuard<()>,
    /// The connection of callers' transactions, where the store made it. Nobody else of this store
    /// can have the lock meanwhile, and callers come in order.
    ticket: Option<PoolConnection<Sqlite>>,
    /// The result of [`version`](Self::version) after the last commit that was noticed.
    version: Option<i64>,
    since: Instant,
}

impl<'p> Wait<'p> {
    pub(crate) async fn begin(pools: &'p Pools) -> Result<Self> {
        let turn = pools.gate.turn().await?;
        let mut wait = Self {
            version: version(pools).await,
            pools,
            _turn: turn,
            ticket: None,
            since: Instant::now(),
        };
        if pools.own().is_some() {
            wait.ticket = wait.queue().await?;
        }
        Ok(wait)
    }

    /// Waits for the connection of callers' transactions; `None` when a caller keeps it, with the
    /// lock or without.
    async fn queue(&mut self) -> Result<Option<PoolConnection<Sqlite>>> {
        let acquired = self.pools.shared.acquire();
        tokio::pin!(acquired);
        loop {
            match tokio::time::timeout(PAUSE.max(self.left()), &mut acquired).await {
                Ok(acquired) => {
                    let at = |error| classify(error, Access::Read);
                    return acquired.map(Some).map_err(at);
                }
                Err(_) if self.has_moved().await => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Pauses before the lock is tried once more.
    ///
    /// # Errors
    ///
    /// `Contention`, when nobody has committed for too long.
    pub(crate) async fn again(&mut self) -> Result<()> {
        tokio::time::sleep(PAUSE).await;
        self.check().await
    }

    fn left(&self) -> Duration {
        MAX_LOCK_WAIT.saturating_sub(self.since.elapsed())
    }

    async fn check(&mut self) -> Result<()> {
        if !self.left().is_zero() || self.has_moved().await {
            return Ok(());
        }
        self.pools.gate.found_taken();
        Err(contention())
    }

    /// Returns whether another connection has committed since the last call. Committing callers are
    /// in line, as this one is; a holder of the lock that does not commit is an open transaction.
    async fn has_moved(&mut self) -> bool {
        let version = version(self.pools).await;
        let has_moved = version.is_some() && version != self.version;
        if has_moved {
            self.version = version;
            self.since = Instant::now();
        }
        has_moved
    }
}

/// Returns a number that changes when another connection commits; `None` where the store has no
/// connection of its own.
async fn version(pools: &Pools) -> Option<i64> {
    let mut guard = pools.own()?.writer.acquire().await.ok()?;
    let query = sqlx::query_scalar("PRAGMA data_version");
    let version = query.fetch_one(connection(&mut guard).ok()?).await.ok()?;
    guard.done();
    Some(version)
}

/// A connection of the caller's pool that does not wait for the lock. Dropped before
/// [`give_back`](Self::give_back) it is closed, so that nobody gets it with that setting.
pub(crate) struct Hasty {
    guard: CloseUnlessDone<Sqlite>,
    millis: i64,
}

impl Hasty {
    pub(crate) async fn acquire(pools: &Pools) -> Result<Self, sqlx::Error> {
        let mut guard = CloseUnlessDone::new(pools.shared.acquire().await?);
        let millis = sqlx::query_scalar("PRAGMA busy_timeout")
            .fetch_one(guard.connection())
            .await?;
        let mut hasty = Self { guard, millis };
        if millis > 0 {
            hasty.set(0).await?;
        }
        Ok(hasty)
    }

    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        self.guard.connection()
    }

    /// Returns the connection with its former setting.
    pub(crate) async fn restored(mut self) -> Result<CloseUnlessDone<Sqlite>, sqlx::Error> {
        if self.millis > 0 {
            self.set(self.millis).await?;
        }
        Ok(self.guard)
    }

    /// Gives the connection back to the pool, with its former setting.
    pub(crate) async fn give_back(self) {
        // A connection that keeps the changed setting is closed.
        if let Ok(guard) = self.restored().await {
            guard.done();
        }
    }

    async fn set(&mut self, millis: i64) -> Result<(), sqlx::Error> {
        let query = AssertSqlSafe(format!("PRAGMA busy_timeout = {millis}"));
        let row = sqlx::query(query).fetch_optional(self.connection()).await;
        row.map(drop)
    }
}
