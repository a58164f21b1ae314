//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::time::Duration;

use idem_core::backend::RetryPauses;
use idem_core::{
    Advance, BoxError, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Error, Failure, Key,
    Response, Result,
};
use sqlx::{SqlitePool, SqliteTransaction};

use crate::error::{Access, classify, is_transaction_retryable};
use crate::file::DatabaseFile;
use crate::session::Session;
use crate::store::{BACKEND, SqliteStore};
use crate::transaction::BEGIN;

/// The record and the caller's own rows commit together: the only true exactly-once there is.
///
/// Either the claim is taken outside, and only [`complete_in`](Self::complete_in) runs in the transaction that
/// writes the business rows: others see the key in flight while the work runs. Or
/// [`claim_in`](Self::claim_in) and `complete_in` both run in it, and a rollback leaves no trace of the claim.
///
/// SQLite has one writer. While such a transaction is open, other callers get replays and in-flight answers of committed
/// records as before; whatever has to write, for any key, answers [`Contention`](idem_core::ErrorKind::Contention) after
/// 500 ms at most. So keep the work out of it, or take the claim outside.
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
        self.check_file("claim_in")?;
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
        self.check_file("complete_in")?;
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
        self.check_file("fail_in")?;
        let at = |error: Error| error.at(BACKEND, "fail_in");
        let sealing = self.operations.failure(failure, retention).map_err(at)?;
        self.operations
            .seal(&mut Session::Transaction(transaction), claim, &sealing)
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
        transaction: &mut SqliteTransaction<'_>,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        self.check_file("checkpoint_in")?;
        self.operations
            .checkpoint(&mut Session::Transaction(transaction), claim, checkpoint)
            .await
            .map_err(|error| error.at(BACKEND, "checkpoint_in"))
    }

    /// [`advance`](idem_core::WatermarkStore::advance) in the caller's transaction: the mark and the rows that were written
    /// for the event commit together, and a rollback leaves the mark where it was.
    ///
    /// # Errors
    ///
    /// As for `advance`.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn advance_in(
        &self,
        transaction: &mut SqliteTransaction<'_>,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        self.check_file("advance_in")?;
        let mut session = Session::Transaction(transaction);
        self.operations
            .advance(&mut session, source, version, retention)
            .await
            .map_err(|error| error.at(BACKEND, "advance_in"))
    }

    /// The caller commits, so nobody looks after it: see `DatabaseFile`.
    fn check_file(&self, operation: &'static str) -> Result<()> {
        let checked = self.pools.file.before_write();
        checked.map_err(|error| error.at(BACKEND, operation))
    }
}

/// Runs transactions that hold the write lock from their start, each repeated as a whole when the database was locked.
#[derive(Debug, Clone)]
pub struct Transactions {
    pool: SqlitePool,
    limit: Duration,
    file: DatabaseFile,
}

impl Transactions {
    /// Transactions on this pool, each repeated for at most 10 s.
    #[must_use]
    pub fn new(pool: SqlitePool) -> Self {
        Self {
            file: DatabaseFile::new(pool.connect_options().get_filename(), false),
            pool,
            limit: Duration::from_secs(10),
        }
    }

    /// For how long a transaction is repeated, at most a year.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

impl Transactions {
    /// A transaction that is to be repeated until it goes through: a deadline and a pause that grows.
    ///
    /// ```no_run
    /// # async fn pay(store: &idem_sqlite::SqliteStore, request: &idem_core::ClaimRequest)
    /// #     -> Result<idem_core::ClaimOutcome, idem_core::BoxError> {
    /// # async fn work(_: &mut sqlx::SqliteTransaction<'_>) -> Result<idem_core::ClaimOutcome, idem_core::BoxError> { Err("…".into()) }
    /// let transactions = idem_sqlite::Transactions::new(store.pool().clone());
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
    pub async fn begin(&mut self) -> Result<SqliteTransaction<'static>> {
        loop {
            let pool = self.transactions.pool.clone();
            // In a task of its own, as in every backend: a future that is dropped while it begins leaves nothing
            // open.
            let begun = tokio::spawn(async move { pool.begin_with(BEGIN).await }).await;
            match begun.unwrap_or(Err(sqlx::Error::WorkerCrashed)) {
                Err(error) if is_transaction_retryable(&error) && self.pauses.wait().await => {}
                begun => {
                    let at = |error| classify(error, Access::Read).at(BACKEND, "begin");
                    return begun.map_err(at);
                }
            }
        }
    }

    /// Commits when the result is good and rolls back when it is not. `None`, after a pause, when another connection
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
        transaction: SqliteTransaction<'static>,
        result: Result<T, E>,
    ) -> Option<Result<T, BoxError>> {
        let result = match result.map_err(Into::into) {
            Ok(value) => {
                let committed = transaction.commit().await;
                let committed = committed.map_err(|error| classify(error, Access::Write));
                // What is in a deleted file is not acknowledged.
                let kept = committed.and_then(|()| self.transactions.file.after_write());
                kept.map(|()| value)
                    .map_err(|error| BoxError::from(error.at(BACKEND, "commit")))
            }
            Err(error) => {
                // That the rollback failed is not what the caller wants to know: the connection is gone then.
                let _ = transaction.rollback().await;
                Err(error)
            }
        };
        self.pauses.settle(result, is_transaction_retryable).await
    }
}
