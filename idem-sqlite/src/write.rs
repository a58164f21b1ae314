//! Statements that write, and their wait for the write lock.

use idem_core::Result;
use idem_sql::cells::Row;
use idem_sql::executor::{BoundStatement, Executor as _};

use crate::error::{Access, classify, is_transaction_retryable};
use crate::executor::SqliteExecutor;
use crate::pools::{Pools, connection};
use crate::wait::{Hasty, Wait};

impl Pools {
    /// Runs a statement that writes: at once if the lock is free, otherwise when it is. Sets
    /// `under_way` from the moment that the statement may have an effect.
    pub(crate) async fn write(
        &self,
        statement: &BoundStatement<'_>,
        under_way: &mut Access,
    ) -> Result<Vec<Row>> {
        if (self.own().is_none() || self.is_idle())
            && let Some(rows) = self.try_write(statement, under_way).await?
        {
            return Ok(rows);
        }
        let turn = match self.gate.turn().await {
            Ok(turn) => turn,
            // The lock was taken a moment ago, and may be free by now.
            Err(error) => {
                let tried = self.try_write(statement, under_way).await?;
                return tried.ok_or(error);
            }
        };
        // Who waited for a turn need not wait for a lock that is free by now. If each did, there
        // would always be one that waits, and callers would never share statements again.
        if self.own().is_some()
            && self.is_idle()
            && let Some(rows) = self.try_write(statement, under_way).await?
        {
            self.gate.found_free();
            return Ok(rows);
        }
        let mut wait = Wait::begin(self, turn).await?;
        loop {
            if let Some(rows) = self.try_write(statement, under_way).await? {
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
        statement: &BoundStatement<'_>,
        under_way: &mut Access,
    ) -> Result<Option<Vec<Row>>> {
        match self.own().is_some() && self.is_idle() {
            true => self.try_write(statement, under_way).await,
            false => Ok(None),
        }
    }

    /// Tries the statement without waiting for the lock; `None` when it is taken.
    async fn try_write(
        &self,
        statement: &BoundStatement<'_>,
        under_way: &mut Access,
    ) -> Result<Option<Vec<Row>>> {
        self.file.before_write()?;
        let harmless = |error| classify(error, Access::Read);
        let written = match self.own() {
            Some(own) => {
                let mut guard = match own.writer.acquire().await {
                    // The last connection of the file, which closes at this moment, keeps a new one
                    // out: https://www.sqlite.org/wal.html#sometimes_queries_return_sqlite_busy_in_wal_mode
                    Err(error) if is_transaction_retryable(&error) => return Ok(None),
                    guard => guard.map_err(harmless)?,
                };
                *under_way = Access::Write;
                let connection = connection(&mut guard).map_err(harmless)?;
                let written = SqliteExecutor(connection).run(statement).await;
                if written.is_ok() || is_locked(&written) {
                    guard.done();
                }
                written
            }
            None => {
                let mut hasty = Hasty::acquire(self).await.map_err(harmless)?;
                *under_way = Access::Write;
                let written = SqliteExecutor(hasty.connection()).run(statement).await;
                hasty.give_back().await;
                written
            }
        };
        match written {
            Ok(answer) => {
                self.file.after_write()?;
                Ok(Some(answer.rows))
            }
            Err(error) if is_transaction_retryable(&error) => {
                *under_way = Access::Read;
                Ok(None)
            }
            Err(error) => Err(classify(error, Access::Write)),
        }
    }
}

fn is_locked<T>(written: &Result<T, sqlx::Error>) -> bool {
    matches!(written, Err(error) if is_transaction_retryable(error))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use idem_core::{BatchStore, ClaimRequest, Fingerprint, IdempotencyStore, Key};
    use idem_sql::parameters::Value;
    use sqlx::Connection;
    use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
    use tokio::task::JoinSet;

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

    fn insert() -> BoundStatement<'static> {
        BoundStatement {
            text: "INSERT INTO written VALUES (?1) RETURNING 1".into(),
            values: vec![Value::Number(1)],
            is_persistent: true,
        }
    }

    /// Returns how many rows a statement has written at once, if it ran.
    async fn written_at_once(store: &SqliteStore) -> Option<usize> {
        let mut under_way = Access::Read;
        let rows = store.pools.write_at_once(&insert(), &mut under_way).await;
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
    async fn a_write_that_would_have_to_wait_for_the_lock_is_not_run() {
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
    async fn a_write_that_finds_the_lock_taken_waits_for_it() {
        let (_folder, store) = store().await;
        let lock = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
        let (insert, mut under_way) = (insert(), Access::Read);
        let write = store.pools.write(&insert, &mut under_way);
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
            .always_expect(request("three").key());
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
        let mut waiting = JoinSet::new();
        for id in ["one", "two", "three"] {
            let (store, request) = (store.clone(), request(id));
            waiting.spawn(async move { store.claim(&request).await.unwrap().name() });
        }
        let deadline = Instant::now() + MAX_LOCK_WAIT;
        while !store.pools.gate.is_waited_for() {
            assert!(Instant::now() < deadline, "no caller tries for the lock");
            tokio::task::yield_now().await;
        }
        let duplicate = request("held");
        let claimed = tokio::time::timeout(MAX_LOCK_WAIT / 2, store.claim(&duplicate));
        assert_eq!(claimed.await.unwrap().unwrap().name(), "in_flight");
        assert!(waiting.try_join_next().is_none());
        lock.rollback().await.unwrap();
        assert_eq!(waiting.join_all().await, ["acquired"; 3]);
    }

    /// Claims one key after the other, as this many callers, until the tasks end.
    fn claim_all_the_time(tasks: &mut JoinSet<()>, store: &SqliteStore, callers: usize) {
        for caller in 0..callers {
            let store = store.clone();
            tasks.spawn(async move {
                for number in 0.. {
                    let claimed = store.claim(&request(&format!("{caller} {number}"))).await;
                    assert_eq!(claimed.unwrap().name(), "acquired");
                }
            });
        }
    }

    async fn until_a_caller_waits(store: &SqliteStore, within: Duration) {
        let deadline = Instant::now() + within;
        while store.pools.may_batch() {
            assert!(Instant::now() < deadline, "no caller waits for the lock");
            tokio::task::yield_now().await;
        }
    }

    /// Checks that there is soon a fifth of a second in which callers share statements in more than
    /// this many of 50 samples. A busy machine may need a while.
    async fn until_shared(store: &SqliteStore, more_than: u32) {
        let mut shared = Vec::new();
        while shared.len() < 50 {
            shared.push(0);
            for _ in 0..50 {
                tokio::time::sleep(Duration::from_millis(4)).await;
                *shared.last_mut().unwrap() += u32::from(store.pools.may_batch());
            }
            if *shared.last().unwrap() > more_than {
                return;
            }
        }
        panic!("callers share statements in {shared:?} of 50 samples");
    }

    /// Of callers that are sent alone there is always one that waits, even for a free lock.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn callers_share_statements_again_when_the_lock_is_free() {
        let (folder, store) = store().await;
        store.migrate().await.unwrap();
        until_idle(&store).await;
        let options = SqliteConnectOptions::new().filename(folder.path().join("idem.db"));
        let mut other = SqliteConnection::connect_with(&options).await.unwrap();
        let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let mut tasks = JoinSet::new();
        claim_all_the_time(&mut tasks, &store, 8);
        until_a_caller_waits(&store, MAX_LOCK_WAIT / 2).await;
        lock.rollback().await.unwrap();
        until_shared(&store, 25).await;
        tasks.shutdown().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn beside_another_writer_callers_share_statements_again() {
        let (folder, store) = store().await;
        store.migrate().await.unwrap();
        until_idle(&store).await;
        let options = SqliteConnectOptions::new().filename(folder.path().join("idem.db"));
        let mut other = SqliteConnection::connect_with(&options).await.unwrap();
        let mut tasks = JoinSet::new();
        // As a store that deletes expired records beside traffic: a tenth of the time.
        tasks.spawn(async move {
            loop {
                let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
                tokio::time::sleep(Duration::from_millis(8)).await;
                lock.rollback().await.unwrap();
                tokio::time::sleep(Duration::from_millis(72)).await;
            }
        });
        claim_all_the_time(&mut tasks, &store, 16);
        until_a_caller_waits(&store, Duration::from_secs(10)).await;
        until_shared(&store, 10).await;
        tasks.shutdown().await;
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
