//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::time::Duration;

use idem_core::backend::{LockedKeys, RetryPauses};
use idem_core::{
    Advance, BoxError, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Error, Failure, Key,
    Response, Result,
};
use sqlx::postgres::PgConnection;
use sqlx::{PgPool, PgTransaction};

use crate::config::LONGEST;
use crate::error::{Access, classify, is_transaction_retryable};
use crate::session::{Session, wait};
use crate::store::{BACKEND, PostgresStore};

/// The record and the caller's own rows commit together: the only true exactly-once there is.
///
/// Either the claim is taken outside, and only [`complete_in`](Self::complete_in) runs in the transaction that
/// writes the business rows: others see the key in flight while the work runs. Or
/// [`claim_in`](Self::claim_in) and `complete_in` both run in it: others that claim the key are answered with
/// `Contention` until it ends, after [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT) at most, and a rollback leaves
/// no trace of the claim. These methods wait no longer either for a key that another open transaction holds. The
/// transaction's own `lock_timeout` holds where it is shorter, and is as before when the method has returned.
///
/// An error of the server fails the transaction: roll it back and repeat it as a whole, with the same key.
/// [`Transactions`] does that.
impl PostgresStore {
    /// [`claim`](idem_core::IdempotencyStore::claim) in the caller's transaction.
    ///
    /// # Errors
    ///
    /// As for `claim`; `Contention` when another open transaction holds the key. Under REPEATABLE READ and SERIALIZABLE also `Contention` when the key was claimed after
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
            .claim(
                &mut self.session_in(transaction, &self.operations.locked, request.key()),
                request,
            )
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
            .seal(
                &mut self.session_in(transaction, &self.operations.locked, claim.key()),
                claim,
                &sealing,
            )
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
            .seal(
                &mut self.session_in(transaction, &self.operations.locked, claim.key()),
                claim,
                &sealing,
            )
            .await
            .map_err(at)
    }

    /// [`checkpoint`](idem_core::CheckpointStore::checkpoint) in the caller's transaction: the recovery point and the rows
    /// that it stands for commit together. When it answers `ClaimLost`, roll back: somebody else does the work.
    ///
    /// # Errors
    ///
    /// As for `checkpoint`.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn checkpoint_in(
        &self,
        transaction: &mut PgTransaction<'_>,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        self.operations
            .checkpoint(
                &mut self.session_in(transaction, &self.operations.locked, claim.key()),
                claim,
                checkpoint,
            )
            .await
            .map_err(|error| error.at(BACKEND, "checkpoint_in"))
    }

    /// [`advance`](idem_core::WatermarkStore::advance) in the caller's transaction: the mark and the rows that were written
    /// for the event commit together, and a rollback leaves the mark where it was. Others that advance the same source
    /// are answered with `Contention` until the transaction ends.
    ///
    /// # Errors
    ///
    /// As for `advance`. Under REPEATABLE READ and SERIALIZABLE also `Contention` when the mark was raised after the
    /// transaction's snapshot was taken.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn advance_in(
        &self,
        transaction: &mut PgTransaction<'_>,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        self.operations
            .advance(
                &mut self.session_in(transaction, &self.operations.locked_marks, source),
                source,
                version,
                retention,
            )
            .await
            .map_err(|error| error.at(BACKEND, "advance_in"))
    }

    fn session_in<'t>(
        &self,
        connection: &'t mut PgConnection,
        locked: &LockedKeys,
        key: &Key,
    ) -> Session<'t> {
        Session::Transaction {
            connection,
            mode: self.operations.config.statement_mode(),
            wait: wait(locked.is_locked(key)),
        }
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

/// Runs transactions, each repeated as a whole after a serialization failure (40001), a deadlock (40P01), or a lock that
/// was not free in time (55P03): see [`is_transaction_retryable`](crate::is_transaction_retryable).
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

    /// For how long a transaction is repeated; at most a year.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit.min(LONGEST);
        self
    }

    fn statement(&self) -> &'static str {
        match self.isolation {
            Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE",
            Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE",
            Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE, READ WRITE",
        }
    }
}

impl Transactions {
    /// A transaction that is to be repeated until it goes through: a deadline and a pause that grows.
    ///
    /// ```no_run
    /// # async fn pay(store: &idem_postgres::PostgresStore, request: &idem_core::ClaimRequest)
    /// #     -> Result<idem_core::ClaimOutcome, idem_core::BoxError> {
    /// # async fn work(_: &mut sqlx::PgTransaction<'_>) -> Result<idem_core::ClaimOutcome, idem_core::BoxError> { Err("…".into()) }
    /// let transactions = idem_postgres::Transactions::new(store.pool().clone());
    /// let mut attempts = transactions.attempts();
    /// loop {
    ///     let mut transaction = attempts.begin().await?;
    ///     let result = work(&mut transaction).await; // claim_in, the business rows, complete_in
    ///     if let Some(result) = attempts.finish(transaction, result).await {
    ///         return result;
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// The work does nothing but through its transaction, and uses one key: after a commit whose answer was lost
    /// the caller runs it again and meets the record.
    #[must_use]
    pub fn attempts(&self) -> TransactionRetry {
        TransactionRetry {
            transactions: self.clone(),
            pauses: RetryPauses::new(self.limit),
        }
    }
}

/// The attempts at one transaction: see [`Transactions::attempts`].
#[derive(Debug)]
pub struct TransactionRetry {
    transactions: Transactions,
    pauses: RetryPauses,
}

impl TransactionRetry {
    /// Begins the transaction, for the first time or again.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Contention`, `Misconfigured`.
    ///
    /// # Cancellation
    ///
    /// Nothing is left open: what was begun for nobody is rolled back.
    pub async fn begin(&mut self) -> Result<PgTransaction<'static>> {
        let (pool, begin) = (
            self.transactions.pool.clone(),
            self.transactions.statement(),
        );
        // In a task of its own, because a future of sqlx 0.9.0 that is dropped while it begins may leave the
        // transaction open (<https://github.com/transact-rs/sqlx/issues/4385>).
        let begun = tokio::spawn(async move { pool.begin_with(begin).await }).await;
        let begun = begun.unwrap_or(Err(sqlx::Error::WorkerCrashed));
        begun.map_err(|error| classify(error, Access::Read).at(BACKEND, "begin"))
    }

    /// Commits when the result is good and rolls back when it is not. `None`, after a pause, when a concurrent transaction
    /// got in the way and the limit has not passed: begin again.
    ///
    /// # Errors
    ///
    /// Those of the work and of the commit, and, once the limit has passed, the last one that could be repeated.
    ///
    /// # Cancellation
    ///
    /// The transaction is rolled back unless the commit was under way.
    pub async fn finish<T, E: Into<BoxError>>(
        &mut self,
        transaction: PgTransaction<'static>,
        result: Result<T, E>,
    ) -> Option<Result<T, BoxError>> {
        let result = match result.map_err(Into::into) {
            Ok(value) => transaction.commit().await.map(|()| value).map_err(|error| {
                BoxError::from(classify(error, Access::Write).at(BACKEND, "commit"))
            }),
            Err(error) => {
                // That the rollback failed is not what the caller wants to know: the connection is gone then.
                let _ = transaction.rollback().await;
                Err(error)
            }
        };
        self.pauses.settle(result, is_transaction_retryable).await
    }
}
