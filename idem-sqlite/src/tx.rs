//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::error::Error as StdError;

use idem_core::Result;
use idem_core::backend::RetryPauses;
use idem_sql::transactions::TransactionSource;
use sqlx::{SqlitePool, SqliteTransaction};

use crate::error::{Access, classify, is_transaction_retryable};
use crate::executor::SqliteExecutor;
use crate::file::DatabaseFile;
use crate::session::Session;
use crate::store::{BACKEND, SqliteStore};
use crate::transaction::BEGIN;

idem_sql::store_in_transaction! {
    /// Operations in a caller's transaction: the record and the caller's own rows commit together.
    /// There is no other true exactly-once.
    ///
    /// Two ways:
    ///
    /// - Claim outside, and run only [`complete_in`](Self::complete_in) in the transaction that
    ///   writes the business rows. Others see the key in flight while the work runs.
    /// - Run [`claim_in`](Self::claim_in) and `complete_in` both in the transaction. A rollback
    ///   leaves no trace of the claim.
    ///
    /// SQLite has one writer. While such a transaction is open, other callers get replays and
    /// in-flight answers of committed records as before. A call that has to write, for any key,
    /// returns [`Contention`](idem_core::ErrorKind::Contention) after 500 ms at most. So keep the
    /// work out of the transaction, or claim outside.
    ///
    /// Begin such a transaction with `BEGIN IMMEDIATE`, as [`Transactions`] does, on the same file.
    /// After [`Contention`](idem_core::ErrorKind::Contention) roll it back and repeat it as a
    /// whole, with the same key.
    SqliteStore, BACKEND, transaction: &mut SqliteTransaction<'_>,
    cancellation: "The transaction is in an unknown state: roll it back.",
    claim: "As for `claim`.",
    advance: "As for `advance`.",
    record: |store, _key| store.session_in(transaction),
    mark: |store, _source| store.session_in(transaction),
}

impl SqliteStore {
    /// The caller commits, so the store cannot check the file afterwards: see `DatabaseFile`.
    fn session_in<'t>(&self, transaction: &'t mut SqliteTransaction<'_>) -> Result<Session<'t>> {
        self.pools.file.before_write()?;
        Ok(Session::Transaction(Box::new(SqliteExecutor(transaction))))
    }
}

/// Runs transactions that hold the write lock from their start, and repeats each as a whole when
/// the database was locked.
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
pub type Transactions = idem_sql::transactions::Transactions<SqliteTransactions>;

/// The attempts at one transaction: see [`Transactions`].
pub type TransactionRetry = idem_sql::transactions::TransactionRetry<SqliteTransactions>;

/// Transactions of a pool.
#[derive(Debug, Clone)]
pub struct SqliteTransactions {
    pool: SqlitePool,
    file: DatabaseFile,
}

impl TransactionSource for SqliteTransactions {
    type Pool = SqlitePool;
    type Isolation = ();
    type Transaction = SqliteTransaction<'static>;

    fn new(pool: SqlitePool) -> Self {
        let file = DatabaseFile::new(pool.connect_options().get_filename(), false);
        Self { pool, file }
    }

    async fn begin(&self, (): (), pauses: &mut RetryPauses) -> Result<SqliteTransaction<'static>> {
        loop {
            let pool = self.pool.clone();
            // Begins in its own task, as in every backend: a future that is dropped while it begins
            // leaves nothing open.
            let begun = tokio::spawn(async move { pool.begin_with(BEGIN).await }).await;
            match begun.unwrap_or(Err(sqlx::Error::WorkerCrashed)) {
                Err(error) if is_transaction_retryable(&error) && pauses.wait().await => {}
                begun => {
                    let at = |error| classify(error, Access::Read).at(BACKEND, "begin");
                    return begun.map_err(at);
                }
            }
        }
    }

    async fn commit(&self, transaction: SqliteTransaction<'static>) -> Result<()> {
        let committed = transaction.commit().await;
        let committed = committed.map_err(|error| classify(error, Access::Write));
        // A commit into a deleted file is not acknowledged.
        let kept = committed.and_then(|()| self.file.after_write());
        kept.map_err(|error| error.at(BACKEND, "commit"))
    }

    async fn rollback(&self, transaction: SqliteTransaction<'static>) {
        let _ = transaction.rollback().await;
    }

    fn is_retryable(error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}
