//! [`Transaction`]: a transaction that only its owner can commit.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idem_core::engine::transaction_ended;
use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnection, SqliteTransactionManager};
use sqlx::{SqlStr, Sqlite, SqlitePool};
use sqlx_core::transaction::TransactionManager;

use crate::error::{Access, classify};
use crate::store::BACKEND;
use crate::transaction::BEGIN;

/// An open transaction on a connection of the pool, which holds the write lock.
///
/// It is a [`SqliteConnection`] for statements. Dropped without a commit, it is rolled back.
///
/// Nothing else commits on its connection: a `COMMIT` in a statement fails and rolls back, and so
/// does each statement that writes after the transaction has ended (`ROLLBACK`, `INSERT OR
/// ROLLBACK`, a full disk). It takes the connection's commit hook and rollback hook
/// (<https://www.sqlite.org/c3ref/commit_hook.html>), and replaces those of the application.
pub struct Transaction {
    connection: PoolConnection<Sqlite>,
    state: Arc<State>,
    /// Whether a commit or rollback has begun and was not answered.
    is_ending: bool,
}

/// What the hooks know.
#[derive(Debug)]
struct State {
    /// Whether the transaction has an owner, who does not commit.
    is_held: AtomicBool,
    /// Whether nothing has ended the transaction.
    is_open: AtomicBool,
}

impl State {
    /// A dropped transaction stays refused until the rollback that sqlx has queued.
    fn may_commit(&self) -> bool {
        !self.is_held.load(Ordering::Acquire) && !self.is_open.load(Ordering::Acquire)
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    fn release(&self) {
        self.is_held.store(false, Ordering::Release);
    }

    fn end(&self) {
        self.is_open.store(false, Ordering::Release);
    }
}

impl Transaction {
    /// Begins a transaction, and takes the hooks.
    pub(crate) async fn begin(pool: &SqlitePool) -> Result<Self, sqlx::Error> {
        let mut connection = pool.acquire().await?;
        SqliteTransactionManager::begin(&mut connection, Some(SqlStr::from_static(BEGIN))).await?;
        let state = Arc::new(State {
            is_held: AtomicBool::new(true),
            is_open: AtomicBool::new(true),
        });
        let mut transaction = Self {
            connection,
            state,
            is_ending: false,
        };
        let (commits, rolls_back) = (transaction.state.clone(), transaction.state.clone());
        let mut handle = transaction.connection.lock_handle().await?;
        handle.set_commit_hook(move || commits.may_commit());
        handle.set_rollback_hook(move || rolls_back.end());
        drop(handle);
        Ok(transaction)
    }

    /// Returns an error when the transaction has ended before its owner ended it.
    pub(crate) fn check(&self) -> Result<()> {
        match self.state.is_open() {
            true => Ok(()),
            false => Err(transaction_ended(Effect::None)),
        }
    }

    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when it has ended before: nothing is committed. `Contention`, `Unavailable`.
    ///
    /// # Cancellation
    ///
    /// Either all of it is committed or nothing.
    pub async fn commit(mut self) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "commit");
        self.check().map_err(at)?;
        self.state.release();
        self.state.end();
        self.is_ending = true;
        let committed = SqliteTransactionManager::commit(&mut self.connection).await;
        self.is_ending = committed.is_err();
        committed.map_err(|error| at(classify(error, Access::Write)))
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    ///
    /// The driver's, as `Other`; the connection is closed then, which rolls back.
    ///
    /// # Cancellation
    ///
    /// The rollback goes on.
    pub async fn rollback(mut self) -> Result<()> {
        if !self.state.is_open() {
            return Ok(());
        }
        self.is_ending = true;
        let done = SqliteTransactionManager::rollback(&mut self.connection).await;
        self.state.end();
        self.is_ending = done.is_err();
        done.map_err(|error| {
            Error::new(ErrorKind::Other, Effect::None, "the rollback failed")
                .with_source(error)
                .at(BACKEND, "rollback")
        })
    }
}

impl Deref for Transaction {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Transaction");
        debug.field("state", &self.state).finish_non_exhaustive()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let depth = SqliteTransactionManager::get_transaction_depth(&self.connection);
        match (self.state.is_open(), depth) {
            // It is not known what is open. After an end without an answer, sqlx 0.9.0 skips the
            // next rollback that it queues, which would be another transaction's.
            _ if self.is_ending => self.connection.close_on_drop(),
            (true, 1..) => SqliteTransactionManager::start_rollback(&mut self.connection),
            (false, 0) => {}
            // sqlx 0.9.0 still counts a transaction that has ended otherwise, and would refuse to
            // begin the next one.
            _ => self.connection.close_on_drop(),
        }
        self.state.release();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use sqlx::sqlite::SqlitePoolOptions;

    use super::*;

    /// Sends a command and drops its future when the connection has done it.
    fn dropped_unanswered<T>(ending: impl Future<Output = T>) {
        let mut ending = pin!(ending);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(ending.as_mut().poll(&mut cx).is_pending());
        std::thread::sleep(Duration::from_millis(50));
    }

    #[tokio::test]
    async fn a_dropped_end_leaves_the_next_transaction_its_rollback() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/a.db?mode=rwc", folder.path().display());
        let options = SqlitePoolOptions::new().max_connections(1);
        let pool = options.connect(&url).await.unwrap();
        for commits in [true, false] {
            let ended = Transaction::begin(&pool).await.unwrap();
            match commits {
                true => dropped_unanswered(ended.commit()),
                false => dropped_unanswered(ended.rollback()),
            }
            drop(Transaction::begin(&pool).await.unwrap());
            let next = Transaction::begin(&pool).await.unwrap();
            next.commit().await.unwrap();
        }
    }
}
