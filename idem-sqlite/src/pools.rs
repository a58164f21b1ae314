//! [`Pools`]: the connections of a store.

use std::time::Duration;

use idem_core::Result;
use idem_sql::sqlx::{ConnectionGuard, Connections};
use sqlx::query_with;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{Execute, SqlStr, Sqlite, SqlitePool};

use crate::config::Config;
use crate::error::{Access, classify, is_transaction_retryable};
use crate::file::DatabaseFile;
use crate::lock::{Gate, Hasty, Wait};
use crate::session::Query;
use crate::statements::INSERTED_AT_MOST;

/// How many connections read beside the writer.
const READERS: usize = 4;

/// The connections of a store.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    /// The connections of callers' transactions. One connection where the store made it, so that
    /// the tasks of this process queue for the write lock in order instead of polling for it.
    pub(crate) shared: SqlitePool,
    /// `None` where the caller gave the pool, or the database is in memory: all statements then run
    /// on the shared pool.
    own: Option<Own>,
    /// The queue for the write lock.
    pub(crate) gate: Gate,
    pub(crate) file: DatabaseFile,
}

/// Connections for the store alone: a pool of sqlx's would ping each of them after each statement.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    /// Reads run beside the writer.
    pub(crate) readers: Connections<Sqlite>,
    /// One connection, which does not wait for the write lock. A statement that finds the lock
    /// taken, by another process or store, goes through the [`Gate`]. While a connection of the
    /// shared pool is in use, only its user may use this one. So this connection takes the lock
    /// from no caller of this store that waits for it.
    pub(crate) writer: Connections<Sqlite>,
}

impl Own {
    /// Nothing is opened yet.
    pub(crate) fn new(options: SqliteConnectOptions) -> Result<Self, sqlx::Error> {
        // The file exists by now. If it is gone, a new empty one would answer as if nothing had
        // happened.
        let options = options.create_if_missing(false);
        let hasty = options
            .clone()
            .busy_timeout(Duration::ZERO)
            // A caller that is slow to read its rows does not prolong the lock.
            .row_buffer_size(INSERTED_AT_MOST);
        Ok(Self {
            readers: Connections::new(options, READERS)?,
            writer: Connections::new(hasty, 1)?,
        })
    }

    /// Waits for the write that is under way.
    async fn close(&self) {
        self.readers.close();
        let last = self.writer.acquire().await;
        self.writer.close();
        drop(last);
    }
}

impl Pools {
    pub(crate) fn new(shared: SqlitePool, own: Option<Own>, file: DatabaseFile) -> Self {
        Self {
            shared,
            own,
            gate: Gate::default(),
            file,
        }
    }

    /// Waits for the operations that are under way.
    pub(crate) async fn close(&self) {
        // Nothing new begins from here on.
        let closing = self.shared.close();
        if let Some(own) = &self.own {
            own.close().await;
        }
        closing.await;
    }

    /// Runs a read of one row at most: the statement has ended when the row is there.
    pub(crate) async fn read(&self, query: Query<'_>) -> Result<Option<SqliteRow>> {
        self.file.before_read()?;
        let at = |error| classify(error, Access::Read);
        let Some(own) = self.own() else {
            let mut connection = self.shared.acquire().await.map_err(at)?;
            return query.fetch_optional(&mut *connection).await.map_err(at);
        };
        let mut guard = own.readers.acquire().await.map_err(at)?;
        let connection = connection(&mut guard).map_err(at)?;
        let row = query.fetch_optional(connection).await.map_err(at)?;
        guard.done();
        Ok(row)
    }

    /// Reads on a connection of the shared pool, to learn its settings.
    pub(crate) async fn read_shared(
        &self,
        query: Query<'_>,
        config: &Config,
    ) -> Result<Option<SqliteRow>> {
        let work = async {
            let mut connection = self.shared.acquire().await?;
            query.fetch_optional(&mut *connection).await
        };
        match tokio::time::timeout(config.timeout(), work).await {
            Ok(read) => read.map_err(|error| classify(error, Access::Read)),
            Err(_) => Err(Access::Read.timed_out(config.timeout())),
        }
    }

    /// Runs a statement that writes: at once if the lock is free, otherwise when it is. Sets
    /// `under_way` from the moment that the statement may have an effect.
    pub(crate) async fn write(
        &self,
        query: Query<'_>,
        under_way: &mut Access,
    ) -> Result<Vec<SqliteRow>> {
        let statement = Repeatable::of(query).map_err(|error| classify(error, Access::Read))?;
        if (self.own().is_none() || self.is_idle())
            && let Some(rows) = self.try_write(statement.query(), under_way).await?
        {
            return Ok(rows);
        }
        let mut wait = match Wait::begin(self).await {
            Ok(wait) => wait,
            // The lock was taken a moment ago, and may be free by now.
            Err(error) => {
                let tried = self.try_write(statement.query(), under_way).await?;
                return tried.ok_or(error);
            }
        };
        loop {
            if let Some(rows) = self.try_write(statement.query(), under_way).await? {
                self.gate.found_free();
                return Ok(rows);
            }
            wait.again().await?;
        }
    }

    /// Runs a statement that writes, unless it would have to wait for the write lock: then returns
    /// `None`, and nothing has happened. On the caller's pool it always returns `None`.
    pub(crate) async fn write_at_once(
        &self,
        query: Query<'_>,
        under_way: &mut Access,
    ) -> Result<Option<Vec<SqliteRow>>> {
        match self.own().is_some() && self.is_idle() {
            true => self.try_write(query, under_way).await,
            false => Ok(None),
        }
    }

    /// Tries the statement without waiting for the lock; `None` when it is taken.
    async fn try_write(
        &self,
        query: Query<'_>,
        under_way: &mut Access,
    ) -> Result<Option<Vec<SqliteRow>>> {
        self.file.before_write()?;
        let harmless = |error| classify(error, Access::Read);
        let written = match self.own() {
            Some(own) => {
                let mut guard = own.writer.acquire().await.map_err(harmless)?;
                *under_way = Access::Write;
                let written = query
                    .fetch_all(connection(&mut guard).map_err(harmless)?)
                    .await;
                if written.is_ok() || is_locked(&written) {
                    guard.done();
                }
                written
            }
            None => {
                let mut hasty = Hasty::acquire(self).await.map_err(harmless)?;
                *under_way = Access::Write;
                let written = query.fetch_all(hasty.connection()).await;
                hasty.give_back().await;
                written
            }
        };
        match written {
            Ok(rows) => {
                self.file.after_write()?;
                Ok(Some(rows))
            }
            Err(error) if is_transaction_retryable(&error) => {
                *under_way = Access::Read;
                Ok(None)
            }
            Err(error) => Err(classify(error, Access::Write)),
        }
    }

    /// Returns the store's own connections. Closing the shared pool closes the store.
    pub(crate) fn own(&self) -> Option<&Own> {
        self.own.as_ref().filter(|_| !self.shared.is_closed())
    }

    /// Returns whether calls may share statements: on connections of the store's own while nobody
    /// is known to hold the write lock. While somebody does, each call is sent alone, so that a
    /// duplicate does not wait with the writers.
    pub(crate) fn may_batch(&self) -> bool {
        self.own().is_some() && self.is_idle() && !self.gate.is_waited_for()
    }

    /// Returns whether no connection of the shared pool is in use.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.num_idle() >= self.shared.size() as usize
    }
}

fn is_locked<T>(written: &Result<T, sqlx::Error>) -> bool {
    matches!(written, Err(error) if is_transaction_retryable(error))
}

pub(crate) fn connection(
    guard: &mut ConnectionGuard<Sqlite>,
) -> Result<&mut SqliteConnection, sqlx::Error> {
    guard.connection().ok_or(sqlx::Error::PoolClosed)
}

/// A statement that can be sent again. A copy shares its text and its arguments.
struct Repeatable {
    text: SqlStr,
    arguments: SqliteArguments,
}

impl Repeatable {
    fn of(mut query: Query<'_>) -> Result<Self, sqlx::Error> {
        let arguments = query.take_arguments().map_err(sqlx::Error::Encode)?;
        Ok(Self {
            arguments: arguments.unwrap_or_default(),
            text: query.sql(),
        })
    }

    fn query(&self) -> Query<'static> {
        query_with(self.text.clone(), self.arguments.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use idem_core::{BatchStore, ClaimRequest, Fingerprint, IdempotencyStore, Key};
    use sqlx::Connection;

    use super::*;
    use crate::lock::MAX_LOCK_WAIT;
    use crate::{Config, SqliteStore};

    /// Creates a store with a table `written` in its file, in a folder that is dropped with it.
    async fn store() -> (tempfile::TempDir, SqliteStore) {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/idem.db", folder.path().display());
        let store = SqliteStore::connect(&url, Config::new()).await.unwrap();
        sqlx::raw_sql("CREATE TABLE written (row)")
            .execute(store.pool())
            .await
            .unwrap();
        (folder, store)
    }

    /// Returns how many rows a statement has written at once, if it ran.
    async fn written_at_once(store: &SqliteStore) -> Option<usize> {
        let query = sqlx::query("INSERT INTO written VALUES (?1) RETURNING 1").bind(1);
        let mut under_way = Access::Read;
        let rows = store.pools.write_at_once(query, &mut under_way).await;
        let rows = rows.unwrap();
        assert_eq!(under_way == Access::Write, rows.is_some());
        rows.map(|rows| rows.len())
    }

    async fn written(store: &SqliteStore) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM written")
            .fetch_one(store.pool())
            .await
            .unwrap()
    }

    fn request(id: &str) -> ClaimRequest {
        let key = Key::new("tenant", "pay", id).unwrap();
        ClaimRequest::new(key, Fingerprint::raw("request"))
    }

    async fn until_idle(store: &SqliteStore) {
        while !store.pools.is_idle() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn what_would_have_to_wait_for_the_lock_is_not_run() {
        let (folder, store) = store().await;
        until_idle(&store).await;
        assert_eq!(written_at_once(&store).await, Some(1));
        let options = SqliteConnectOptions::new().filename(folder.path().join("idem.db"));
        let mut other = SqliteConnection::connect_with(&options).await.unwrap();
        let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
        assert_eq!(written_at_once(&store).await, None);
        lock.rollback().await.unwrap();
        assert_eq!(written_at_once(&store).await, Some(1));
        assert_eq!(written(&store).await, 2);
    }

    #[tokio::test]
    async fn only_the_shared_connection_waits_for_the_lock() {
        let (_folder, store) = store().await;
        let millis = || sqlx::query_scalar("PRAGMA busy_timeout");
        let shared: i64 = millis().fetch_one(store.pool()).await.unwrap();
        until_idle(&store).await;
        let mut guard = store.pools.own().unwrap().writer.acquire().await.unwrap();
        let own: i64 = millis()
            .fetch_one(connection(&mut guard).unwrap())
            .await
            .unwrap();
        assert_eq!((shared, own), (5000, 0));
    }

    #[tokio::test]
    async fn while_a_caller_has_a_connection_everything_queues_for_it() {
        let (_folder, store) = store().await;
        let held = store.pool().acquire().await.unwrap();
        assert_eq!(written_at_once(&store).await, None);
        drop(held);
        until_idle(&store).await;
        assert_eq!(written_at_once(&store).await, Some(1));
        store.close().await;
        assert_eq!(written_at_once(&store).await, None);
    }

    #[tokio::test]
    async fn what_finds_the_lock_taken_waits_for_it() {
        let (_folder, store) = store().await;
        let lock = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
        let query = || sqlx::query("INSERT INTO written VALUES (?1) RETURNING 1").bind(1);
        let mut under_way = Access::Read;
        let write = store.pools.write(query(), &mut under_way);
        let (rows, ended) = tokio::join!(write, lock.commit());
        ended.unwrap();
        assert_eq!(rows.unwrap().len(), 1);
        assert_eq!(written(&store).await, 1);
    }

    #[tokio::test]
    async fn a_claim_of_a_mostly_fresh_operation_reads_nothing() {
        let (_folder, store) = store().await;
        store.migrate().await.unwrap();
        until_idle(&store).await;
        store.pools.own().unwrap().readers.close();
        let claimed = store.claim(&request("one")).await.unwrap();
        assert_eq!(claimed.name(), "acquired");
        let claimed = store.claim_many(&[request("two")]).await.remove(0);
        assert_eq!(claimed.unwrap().name(), "acquired");
        store
            .operations
            .estimator
            .always_look(request("three").key());
        assert!(store.claim(&request("three")).await.is_err());
        assert!(store.claim_many(&[request("three")]).await[0].is_err());
    }

    /// A duplicate does not even wait for another claim that waits for the lock.
    #[tokio::test]
    async fn no_duplicate_waits_for_the_lock() {
        let (folder, store) = store().await;
        store.migrate().await.unwrap();
        until_idle(&store).await;
        let held = store.claim(&request("held")).await.unwrap();
        assert_eq!(held.name(), "acquired");
        let options = SqliteConnectOptions::new().filename(folder.path().join("idem.db"));
        let mut other = SqliteConnection::connect_with(&options).await.unwrap();
        let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        for id in ["one", "two", "three"] {
            let (store, request) = (store.clone(), request(id));
            waiting.spawn(async move { store.claim(&request).await.unwrap().name() });
        }
        let deadline = Instant::now() + MAX_LOCK_WAIT;
        while !store.pools.gate.is_waited_for() {
            assert!(Instant::now() < deadline, "nobody tries for the lock");
            tokio::task::yield_now().await;
        }
        let duplicate = request("held");
        let claimed = tokio::time::timeout(MAX_LOCK_WAIT / 2, store.claim(&duplicate));
        assert_eq!(claimed.await.unwrap().unwrap().name(), "in_flight");
        assert!(waiting.try_join_next().is_none());
        lock.rollback().await.unwrap();
        assert_eq!(waiting.join_all().await, ["acquired"; 3]);
    }

    #[tokio::test]
    async fn a_database_in_memory_has_one_connection() {
        let store = SqliteStore::connect("sqlite::memory:", Config::new()).await;
        let store = store.unwrap();
        assert!(store.pools.own().is_none());
        assert_eq!(store.pool().options().get_max_connections(), 1);
    }

    /// The connection is back in the pool a moment after the transaction has ended, and the lock is
    /// free.
    #[tokio::test]
    async fn a_lock_that_was_taken_a_moment_ago_is_tried() {
        let (_folder, store) = store().await;
        store.migrate().await.unwrap();
        let lock = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
        assert!(store.claim(&request("one")).await.is_err());
        lock.rollback().await.unwrap();
        let held = store.pool().acquire().await.unwrap();
        assert!(!store.pools.is_idle());
        let claimed = store.claim(&request("two")).await.unwrap();
        assert_eq!(claimed.name(), "acquired");
        let claimed = store.claim_many(&[request("three")]).await.remove(0);
        assert_eq!(claimed.unwrap().name(), "acquired");
        drop(held);
    }
}
