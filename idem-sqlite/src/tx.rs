//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use idem_core::{BoxError, Claim, ClaimOutcome, ClaimRequest, Error, Failure, Response, Result};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Sqlite, SqlitePool, SqliteTransaction};
use tokio::time::Instant;

use crate::config::Config;
use crate::error::{Sent, classify, is_transaction_retryable};
use crate::session::{Session, timed_out};
use crate::store::{BACKEND, SqliteStore};

/// A transaction that takes the write lock at once: one that first reads cannot always become a writer
/// (SQLITE_BUSY_SNAPSHOT, <https://www.sqlite.org/isolation.html>).
const BEGIN: &str = "BEGIN IMMEDIATE";

/// The record and the caller's own rows commit together: the only true exactly-once there is.
///
/// Either the claim is taken outside, and only [`complete_in`](Self::complete_in) runs in the transaction that
/// writes the business rows: others see the key in flight while the work runs. Or
/// [`claim_in`](Self::claim_in) and `complete_in` both run in it: others wait for the write lock meanwhile, and a
/// rollback leaves no trace of the claim.
///
/// Begin such a transaction with `BEGIN IMMEDIATE`, as [`Transactions`] does, on the same file. After
/// [`Contention`](idem_core::ErrorKind::Contention) roll it back and repeat it as a whole, with the same key.
impl SqliteStore {
    /// [`claim`](idem_core::IdempotencyStore::claim) in the caller's transaction.
    ///
    /// # Errors
    ///
    /// As for `claim`.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn claim_in(
        &self,
        transaction: &mut SqliteTransaction<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        self.operations
            .claim(&mut Session::Transaction(transaction), request)
            .await
            .map_err(|error| error.at(BACKEND, "claim_in"))
    }

    /// [`complete`](idem_core::IdempotencyStore::complete) in the caller's transaction. When it answers `ClaimLost`,
    /// roll back: somebody else does the work.
    ///
    /// # Errors
    ///
    /// As for `complete`.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn complete_in(
        &self,
        transaction: &mut SqliteTransaction<'_>,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "complete_in");
        let sealing = self.operations.response(response, retention).map_err(at)?;
        self.operations
            .seal(&mut Session::Transaction(transaction), claim, &sealing)
            .await
            .map_err(at)
    }

    /// [`fail`](idem_core::IdempotencyStore::fail) in the caller's transaction.
    ///
    /// # Errors
    ///
    /// As for `fail`.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn fail_in(
        &self,
        transaction: &mut SqliteTransaction<'_>,
        claim: &Claim,
        failure: &Failure,
        retention: Duration,
    ) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "fail_in");
        let sealing = self.operations.failure(failure, retention).map_err(at)?;
        self.operations
            .seal(&mut Session::Transaction(transaction), claim, &sealing)
            .await
            .map_err(at)
    }
}

/// The future of a transaction's work.
pub type TransactionFuture<'t, T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 't>>;

/// Runs transactions that hold the write lock from their start, each repeated as a whole when the database was locked.
#[derive(Debug, Clone)]
pub struct Transactions {
    pool: SqlitePool,
    limit: Duration,
}

impl Transactions {
    /// Transactions on this pool, each repeated for at most 10 s.
    #[must_use]
    pub fn new(pool: SqlitePool) -> Self {
        Self {
            pool,
            limit: Duration::from_secs(10),
        }
    }

    /// For how long a transaction is repeated.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs `work` in a transaction and commits it; rolls back when `work` answers with an error.
    ///
    /// When the error, or one that it comes from, says that the database was locked, everything is done again from
    /// the start. So `work` does nothing but through its transaction, and uses one key: after a commit whose answer
    /// was lost the caller runs it again and meets the record.
    ///
    /// # Errors
    ///
    /// The error of `work`, of SQLite, or, once the limit has passed, that the database was locked.
    ///
    /// # Cancellation
    ///
    /// The transaction is rolled back unless the commit was under way; its connection is closed.
    pub async fn run<T, F>(&self, mut work: F) -> Result<T, BoxError>
    where
        F: for<'t, 'c> FnMut(&'t mut SqliteTransaction<'c>) -> TransactionFuture<'t, T> + Send,
        T: Send,
    {
        let deadline = Instant::now() + self.limit;
        let mut pause = Duration::from_millis(1);
        loop {
            match self.run_once(&mut work).await {
                Err(error)
                    if is_transaction_retryable(&*error) && Instant::now() + pause < deadline =>
                {
                    tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
                    pause = (pause * 2).min(Duration::from_millis(100));
                }
                result => return result,
            }
        }
    }

    async fn run_once<T, F>(&self, work: &mut F) -> Result<T, BoxError>
    where
        F: for<'t, 'c> FnMut(&'t mut SqliteTransaction<'c>) -> TransactionFuture<'t, T> + Send,
        T: Send,
    {
        let at = |error, sent| classify(error, sent).at(BACKEND, "transaction");
        let connection = self
            .pool
            .acquire()
            .await
            .map_err(|error| at(error, Sent::Harmless))?;
        let mut guard = CloseUnlessDone::new(connection);
        let mut transaction = guard
            .connection
            .begin_with(BEGIN)
            .await
            .map_err(|error| at(error, Sent::Harmless))?;
        let result = work(&mut transaction).await;
        let ended = match &result {
            Ok(_) => transaction.commit().await,
            Err(_) => transaction.rollback().await,
        };
        match ended {
            Ok(()) => guard.done(),
            // The rollback's failure is not what the caller wants to know.
            Err(_) if result.is_err() => {}
            Err(error) => return Err(at(error, Sent::Write).into()),
        }
        result
    }
}

/// A transaction of the store's own.
#[derive(Debug)]
pub(crate) struct WriteTransaction(CloseUnlessDone);

impl WriteTransaction {
    pub(crate) async fn begin(pool: &SqlitePool, config: &Config) -> Result<Self> {
        let work = async {
            let connection = pool.acquire().await?;
            let mut guard = CloseUnlessDone::new(connection);
            sqlx::query(BEGIN).execute(&mut *guard.connection).await?;
            Ok(Self(guard))
        };
        match tokio::time::timeout(config.timeout(), work).await {
            Ok(begun) => begun.map_err(|error| classify(error, Sent::Harmless)),
            Err(_) => Err(timed_out(config, Sent::Harmless)),
        }
    }

    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.0.connection
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        sqlx::query("COMMIT")
            .execute(self.connection())
            .await
            .map_err(|error| classify(error, Sent::Write))?;
        self.0.done();
        Ok(())
    }
}

/// Closes the connection, and with it rolls back, what was begun on it and not finished.
#[derive(Debug)]
struct CloseUnlessDone {
    connection: PoolConnection<Sqlite>,
    done: bool,
}

impl CloseUnlessDone {
    fn new(connection: PoolConnection<Sqlite>) -> Self {
        Self {
            connection,
            done: false,
        }
    }

    /// What was begun is finished: the pool may have the connection back.
    fn done(mut self) {
        self.done = true;
    }
}

impl Drop for CloseUnlessDone {
    fn drop(&mut self) {
        if !self.done {
            self.connection.close_on_drop();
        }
    }
}
