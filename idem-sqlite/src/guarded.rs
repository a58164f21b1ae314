//! [`Transaction`]: a transaction that only its owner can commit.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idem_core::engine::transaction_ended;
use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnection, SqliteTransactionManager};
use sqlx::{Executor, SqlStr, Sqlite, SqlitePool};
use sqlx_core::transaction::TransactionManager;

use crate::error::{Access, classify};
use crate::group::{Group, Lead, Turn, not_committed};
use crate::store::BACKEND;
use crate::transaction::BEGIN;

/// An open transaction on a connection of the pool, which holds the write lock.
///
/// A transaction of the engine may have the rows of other works, too, which commit with it: see
/// [`Sharing`](crate::Sharing).
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
    /// Whether a commit or rollback was sent, and has no answer yet.
    is_ending: bool,
    /// `None` for a transaction that is not shared.
    group: Option<Group>,
    /// Whether a savepoint keeps the rows of other works, which ran before in this transaction.
    has_savepoint: bool,
}

/// The statements that begin, keep and undo the part of a work.
const SAVEPOINT: &str = "SAVEPOINT idem_work";
const RELEASE: &str = "RELEASE idem_work";
const UNDO: &str = "ROLLBACK TO idem_work; RELEASE idem_work";

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
            group: None,
            has_savepoint: false,
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

    /// Lets works share the transaction.
    pub(crate) fn led_by(mut self, lead: Lead) -> Self {
        self.group = Some(Group::new(lead));
        self
    }

    /// Begins the part of a work that joins other works.
    pub(crate) async fn joined(mut self) -> Result<Self, sqlx::Error> {
        let connection: &mut SqliteConnection = &mut self.connection;
        connection.execute(SqlStr::from_static(SAVEPOINT)).await?;
        self.has_savepoint = true;
        if let Some(group) = &mut self.group {
            group.begin();
        }
        Ok(self)
    }

    /// Returns whether the transaction has uncommitted rows of other works.
    pub(crate) fn is_shared(&self) -> bool {
        self.group.as_ref().is_some_and(Group::is_shared)
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
        if self.group.is_none() {
            return self.commit_all().await.map_err(at);
        }
        if !self.end_part(RELEASE).await {
            return Err(at(transaction_ended(Effect::None)));
        }
        self.leave()
            .await
            .map_err(|effect| at(not_committed(effect)))
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    ///
    /// The driver's, as `Other`, unless works share it; closing the connection then rolls back.
    ///
    /// # Cancellation
    ///
    /// The rollback goes on.
    pub async fn rollback(mut self) -> Result<()> {
        if !self.state.is_open() {
            return Ok(());
        }
        if self.has_savepoint {
            if self.end_part(UNDO).await {
                // The work may have read rows of the others, which count only after the commit.
                let _ = self.leave().await;
            }
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

    /// Ends the part of a work. Returns false where the work has ended the transaction or the
    /// savepoint, or has left a savepoint of sqlx open.
    async fn end_part(&mut self, text: &'static str) -> bool {
        let depth = SqliteTransactionManager::get_transaction_depth(&self.connection);
        if depth != 1 {
            return false;
        }
        if !std::mem::take(&mut self.has_savepoint) {
            return true;
        }
        let connection: &mut SqliteConnection = &mut self.connection;
        let ended = connection.execute(SqlStr::from_static(text)).await;
        ended.is_ok() && self.state.is_open()
    }

    /// Gives the transaction to the next work, or commits it. Waits for the commit.
    async fn leave(mut self) -> Result<(), Effect> {
        let Some(committed) = self.group.as_mut().map(Group::wait) else {
            return Ok(());
        };
        loop {
            let Some(next) = self.group.as_ref().and_then(Group::next) else {
                // The commit goes on for the other works when this future is dropped.
                tokio::spawn(async move {
                    let committed = self.commit_all().await;
                    let committed = committed.map_err(|error| error.effect());
                    if let Some(group) = &mut self.group {
                        group.tell(committed);
                    }
                });
                break;
            };
            match next.send(Turn::Join(self)) {
                Ok(()) => break,
                Err(Turn::Join(back)) => self = back,
                Err(Turn::Lead(_)) => return Err(Effect::None),
            }
        }
        committed.await.unwrap_or(Err(Effect::Unknown))
    }

    async fn commit_all(&mut self) -> Result<()> {
        self.state.release();
        self.state.end();
        self.is_ending = true;
        let committed = SqliteTransactionManager::commit(&mut self.connection).await;
        self.is_ending = committed.is_err();
        committed.map_err(|error| classify(error, Access::Write))
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
            // Nobody knows what is open. After an end without an answer, sqlx 0.9.0 skips the next
            // rollback that it queues, which would be another transaction's.
            _ if self.is_ending => self.connection.close_on_drop(),
            (true, 1) => SqliteTransactionManager::start_rollback(&mut self.connection),
            (false, 0) => {}
            // sqlx 0.9.0 still counts a transaction that has ended otherwise, and would refuse to
            // begin the next one.
            _ => self.connection.close_on_drop(),
        }
        self.state.release();
        let effect = match self.is_ending {
            true => Effect::Unknown,
            false => Effect::None,
        };
        if let Some(group) = &mut self.group {
            group.tell(Err(effect));
        }
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
    use crate::group::Groups;

    /// Sends a command, and drops its future when the connection has executed the command.
    fn dropped_unanswered<T>(ending: impl Future<Output = T>) {
        let mut ending = pin!(ending);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(ending.as_mut().poll(&mut cx).is_pending());
        std::thread::sleep(Duration::from_millis(50));
    }

    async fn pool(folder: &tempfile::TempDir, connections: u32) -> SqlitePool {
        let url = format!("sqlite://{}/a.db?mode=rwc", folder.path().display());
        let options = SqlitePoolOptions::new().max_connections(connections);
        options.connect(&url).await.unwrap()
    }

    /// How the second of three works ends its part.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Ends {
        Commits,
        RollsBack,
        Drops,
        Runs(&'static str),
    }

    async fn inserted(mut transaction: Transaction, row: i64) -> Transaction {
        let insert = sqlx::query("INSERT INTO works VALUES (?)").bind(row);
        insert.execute(&mut *transaction).await.unwrap();
        transaction
    }

    #[tokio::test]
    async fn works_that_wait_share_a_commit_or_its_failure() {
        for (ends, rows) in [
            (Ends::Commits, 3),
            (Ends::RollsBack, 2),
            (Ends::Drops, 1),
            (Ends::Runs("ROLLBACK"), 1),
            (Ends::Runs("COMMIT"), 1),
            (Ends::Runs("RELEASE idem_work"), 1),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (pool, reads) = (pool(&folder, 1).await, pool(&folder, 1).await);
            let create = sqlx::query("PRAGMA journal_mode = WAL; CREATE TABLE works (row INTEGER)");
            create.execute(&pool).await.unwrap();
            let count = async || {
                let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM works");
                count.fetch_one(&reads).await.unwrap()
            };
            let groups = Groups::patient();
            let begin = async || match groups.turn().await {
                Turn::Join(transaction) => transaction.joined().await.unwrap(),
                Turn::Lead(lead) => Transaction::begin(&pool).await.unwrap().led_by(lead),
            };
            let first = inserted(begin().await, 1).await;
            // The second and the third wait, in this order, before the first ends.
            let (mut second, mut third) = (pin!(begin()), pin!(begin()));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(second.as_mut().poll(&mut cx).is_pending());
            assert!(third.as_mut().poll(&mut cx).is_pending());
            let first = tokio::spawn(first.commit());
            let mut second = inserted(second.await, 2).await;
            assert!(second.is_shared() && !first.is_finished());
            assert_eq!(count().await, 0, "{ends:?}: nothing is committed yet");
            let second = match ends {
                Ends::Commits => Some(tokio::spawn(second.commit())),
                Ends::RollsBack => Some(tokio::spawn(second.rollback())),
                Ends::Drops => {
                    drop(second);
                    None
                }
                Ends::Runs(text) => {
                    let connection: &mut SqliteConnection = &mut second;
                    let _ = connection.execute(text).await;
                    Some(tokio::spawn(second.commit()))
                }
            };
            let third = inserted(third.await, 3).await;
            third.commit().await.unwrap();
            let (first, fails) = (first.await.unwrap(), rows == 1);
            assert_eq!(first.is_err(), fails, "{ends:?}: {first:?}");
            if let Err(error) = first {
                let told = (error.kind(), error.effect());
                assert_eq!(told, (ErrorKind::Contention, Effect::None), "{ends:?}");
            }
            if let Some(second) = second {
                assert_eq!(second.await.unwrap().is_err(), fails, "{ends:?}");
            }
            assert_eq!(count().await, rows, "{ends:?}");
        }
    }

    #[tokio::test]
    async fn a_dropped_end_leaves_the_next_transaction_its_rollback() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(&folder, 1).await;
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
