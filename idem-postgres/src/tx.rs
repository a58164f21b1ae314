//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use idem_core::{BoxError, Claim, ClaimOutcome, ClaimRequest, Error, Failure, Response, Result};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, PgPool, PgTransaction};
use tokio::time::Instant;

use crate::error::{Sent, classify, is_transaction_retryable};
use crate::session::{CloseUnlessDone, Session};
use crate::store::{BACKEND, PostgresStore};

/// The record and the caller's own rows commit together: the only true exactly-once there is.
///
/// Either the claim is taken outside, and only [`complete_in`](Self::complete_in) runs in the transaction that
/// writes the business rows: others see the key in flight while the work runs. Or
/// [`claim_in`](Self::claim_in) and `complete_in` both run in it: others that claim the key wait for the
/// transaction's end (bounded by [`Config::with_timeout`](crate::Config::with_timeout)), and a rollback leaves
/// no trace of the claim.
///
/// An error of the server fails the transaction: roll it back and repeat it as a whole, with the same key.
/// [`Transactions`] does that.
impl PostgresStore {
    /// [`claim`](idem_core::IdempotencyStore::claim) in the caller's transaction.
    ///
    /// # Errors
    ///
    /// As for `claim`. Under REPEATABLE READ and SERIALIZABLE also `Contention` when the key was claimed after
    /// the transaction's snapshot was taken.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn claim_in(
        &self,
        transaction: &mut PgTransaction<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        self.operations
            .claim(&mut self.session_in(transaction), request)
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
        transaction: &mut PgTransaction<'_>,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "complete_in");
        let sealing = self.operations.response(response, retention).map_err(at)?;
        self.operations
            .seal(&mut self.session_in(transaction), claim, &sealing)
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
        transaction: &mut PgTransaction<'_>,
        claim: &Claim,
        failure: &Failure,
        retention: Duration,
    ) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "fail_in");
        let sealing = self.operations.failure(failure, retention).map_err(at)?;
        self.operations
            .seal(&mut self.session_in(transaction), claim, &sealing)
            .await
            .map_err(at)
    }

    fn session_in<'t>(&self, connection: &'t mut PgConnection) -> Session<'t> {
        Session::Transaction(connection, self.operations.config.statement_mode())
    }
}

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees what was committed before it: PostgreSQL's default.
    #[default]
    ReadCommitted,
    /// All statements see what was committed before the first.
    RepeatableRead,
    /// As if transactions ran one after the other.
    Serializable,
}

/// The future of a transaction's work.
pub type TransactionFuture<'t, T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 't>>;

/// Runs transactions, each repeated as a whole after a serialization failure (40001) or a deadlock (40P01).
#[derive(Debug, Clone)]
pub struct Transactions {
    pool: PgPool,
    isolation: Isolation,
    limit: Duration,
}

impl Transactions {
    /// Transactions on this pool, under READ COMMITTED, each repeated for at most 10 s.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            isolation: Isolation::default(),
            limit: Duration::from_secs(10),
        }
    }

    /// Another isolation level.
    #[must_use]
    pub fn with_isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// For how long a transaction is repeated.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs `work` in a transaction and commits it; rolls back when `work` answers with an error.
    ///
    /// When the error, or one that it comes from, says that a concurrent transaction got in the way, everything
    /// is done again from the start. So `work` does nothing but through its transaction, and uses one key: after
    /// a commit whose answer was lost the caller runs it again and meets the record.
    ///
    /// # Errors
    ///
    /// The error of `work`, of the server, or, once the limit has passed, the last serialization failure.
    ///
    /// # Cancellation
    ///
    /// The transaction is rolled back unless the commit was under way; its connection is closed.
    pub async fn run<T, F>(&self, mut work: F) -> Result<T, BoxError>
    where
        F: for<'t, 'c> FnMut(&'t mut PgTransaction<'c>) -> TransactionFuture<'t, T> + Send,
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
        F: for<'t, 'c> FnMut(&'t mut PgTransaction<'c>) -> TransactionFuture<'t, T> + Send,
        T: Send,
    {
        let at = |error, sent| classify(error, sent).at(BACKEND, "transaction");
        let connection = self
            .pool
            .acquire()
            .await
            .map_err(|error| at(error, Sent::Harmless))?;
        let mut guard = CloseUnlessDone::new(connection);
        let begin = match self.isolation {
            Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        };
        let mut transaction = guard
            .connection()
            .begin_with(begin)
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
