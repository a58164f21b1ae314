//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::error::Error as StdError;

use idem_core::Result;
use idem_core::backend::RetryPauses;
use idem_sql::transactions::{OfTheStore, TransactionSource};

use crate::error::is_transaction_retryable;
use crate::pool::DuckDbPool;
use crate::session::Session;
use crate::store::{BACKEND, DuckDbStore};
use crate::transaction::DuckDbTransaction;

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
    /// While such a transaction is open, other writers of its records return
    /// [`Contention`](idem_core::ErrorKind::Contention). The transaction returns it where another
    /// one has changed a record that it writes, at the latest from its commit. Roll it back then and
    /// repeat it as a whole, with the same key, as [`Transactions`] does.
    ///
    /// A transaction sees the state at its first statement. So begin another after a wait.
    DuckDbStore, BACKEND, transaction: &mut DuckDbTransaction,
    cancellation: "The transaction is rolled back, and further calls in it fail.",
    claim: "As for `claim`.",
    advance: "As for `advance`.",
    record: |_store, _key| Ok::<_, idem_core::Error>(Session::Transaction(transaction)),
    mark: |_store, _source| Ok::<_, idem_core::Error>(Session::Transaction(transaction)),
}

idem_sql::records_in! {
    [] DuckDbStore, DuckDbTransaction,
    |_store, transaction, _key| Ok::<_, idem_core::Error>(Session::Transaction(transaction)),
}

idem_sql::store_admin! {
    DuckDbStore, BACKEND, DuckDbTransactions,
    |_store, transaction, _key| Ok::<_, idem_core::Error>(Session::Transaction(transaction)),
}

/// Runs transactions, and repeats each as a whole when it meets a conflict.
///
/// Here the engine claims outside, and the rows of a batch commit with its record:
///
/// ```no_run,standalone_crate
/// use idem_core::{BoxError, Idempotency, Key, Policy, Response, Work};
/// use idem_duckdb::{Config, DuckDbStore, Transactions};
///
/// # async fn example() -> Result<(), BoxError> {
/// let store = DuckDbStore::connect("sales.duckdb", Config::new()).await?;
/// store.migrate().await?;
/// let transactions = Transactions::new(&store);
/// # let store = std::sync::Arc::new(store);
/// let idempotency = Idempotency::new(store.clone());
/// let retention = Policy::default().retention();
/// let load = async |work: Work| {
///     let claim = work.claim().expect("a run with a key has a claim");
///     let mut attempts = transactions.attempts();
///     loop {
///         let mut transaction = attempts.begin().await?;
///         let written = async {
///             let insert = "INSERT INTO sales SELECT * FROM 'sales-2026-11.parquet'";
///             let rows = transaction.run(move |connection| connection.execute(insert, []));
///             let rows = rows.await?;
///             let response = Response::json(&rows)?;
///             store.complete_in(&mut transaction, &claim, &response, retention).await?;
///             Ok::<_, BoxError>(rows)
///         };
///         let written = written.await;
///         // Commits, or rolls back; `None` if another transaction was in the way: once more.
///         if let Some(done) = attempts.finish(transaction, written).await {
///             return done;
///         }
///     }
/// };
/// let key = Key::new("warehouse", "sales.load", "sales-2026-11.parquet")?;
/// let rows = idempotency.run(&key, &"a checksum of the file", load).await;
/// # let _ = rows.map_err(|error| error.to_string())?;
/// # Ok(())
/// # }
/// ```
pub type Transactions = idem_sql::transactions::Transactions<DuckDbTransactions>;

/// The attempts at one transaction: see [`Transactions`].
pub type TransactionRetry = idem_sql::transactions::TransactionRetry<DuckDbTransactions>;

/// Transactions of a pool.
#[derive(Debug, Clone)]
pub struct DuckDbTransactions(DuckDbPool);

impl OfTheStore for DuckDbTransactions {
    fn pool(store: &DuckDbStore) -> DuckDbPool {
        store.pool().clone()
    }
}

impl TransactionSource for DuckDbTransactions {
    type Pool = DuckDbPool;
    type Store = DuckDbStore;
    type Isolation = ();
    type Transaction = DuckDbTransaction;

    fn new(pool: DuckDbPool) -> Self {
        Self(pool)
    }

    async fn begin(&self, (): (), _: &mut RetryPauses) -> Result<DuckDbTransaction> {
        self.0.begin().await
    }

    async fn commit(&self, transaction: DuckDbTransaction) -> Result<()> {
        let committed = transaction.commit().await;
        committed.map_err(|error| error.at(BACKEND, "commit"))
    }

    async fn rollback(&self, transaction: DuckDbTransaction) {
        let _ = transaction.rollback().await;
    }

    fn is_retryable(error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}
