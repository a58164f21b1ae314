//! [`Wait`]: how long a caller waits for the write lock.

use std::time::Duration;

use idem_core::Result;
use idem_sql::sqlx::CloseUnlessDone;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Sqlite};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use crate::error::{Access, classify};
use crate::lock::{MAX_LOCK_WAIT, contention};
use crate::pools::{Pools, connection};

/// The pause before a statement that has found the write lock taken tries again. SQLite's own
/// handler waits longer with each try, up to 100 ms.
const PAUSE: Duration = Duration::from_millis(1);

/// One caller's wait for the lock.
#[derive(Debug)]
pub(crate) struct Wait<'p> {
    pools: &'p Pools,
    _turn: OwnedMutexGuard<()>,
    /// The connection of callers' transactions, where the store made it. No other caller of this
    /// store can have the lock meanwhile, and callers come in order.
    ticket: Option<PoolConnection<Sqlite>>,
    /// The result of [`version`](Self::version) after the last commit that was noticed.
    version: Option<i64>,
    since: Instant,
}

impl<'p> Wait<'p> {
    pub(crate) async fn begin(pools: &'p Pools, turn: OwnedMutexGuard<()>) -> Result<Self> {
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
    /// `Contention`, after too long without a commit.
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

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.pools.gate.wait_ended();
        }
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
/// [`give_back`](Self::give_back) it is closed, so that no caller gets it with that setting.
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
