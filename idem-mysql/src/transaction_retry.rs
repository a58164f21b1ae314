//! Repeats transactions as a whole.

use std::error::Error as StdError;

use idem_core::Result;
use idem_core::backend::RetryPauses;
use idem_sql::transactions::{Isolation, IsolationLevels, TransactionSource};
use sqlx::MySqlPool;

use crate::error::is_transaction_retryable;
use crate::store::MySqlStore;
use crate::transaction::Transaction;

fn begin(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => {
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION"
        }
        Isolation::RepeatableRead => {
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION"
        }
        Isolation::Serializable => {
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION"
        }
    }
}

/// Runs transactions, and repeats each as a whole after a deadlock or a failed certification
/// (1213), a lock of another transaction (1205, 3572, `Contention`), or a row that changed under a
/// snapshot (1020).
///
/// ```no_run
/// # async fn pay(store: &idem_mysql::MySqlStore, request: &idem_core::ClaimRequest)
/// #     -> Result<idem_core::ClaimOutcome, idem_core::BoxError> {
/// # async fn work(_: &mut idem_mysql::Transaction) -> Result<idem_core::ClaimOutcome, idem_core::BoxError> { Err("…".into()) }
/// let transactions = idem_mysql::Transactions::new(&store);
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
/// A commit that was under way when its future was dropped goes on.
pub type Transactions = idem_sql::transactions::Transactions<MySqlTransactions>;

/// The attempts at one transaction: see [`Transactions`].
pub type TransactionRetry = idem_sql::transactions::TransactionRetry<MySqlTransactions>;

/// Transactions of a pool.
#[derive(Debug, Clone)]
pub struct MySqlTransactions {
    pool: MySqlPool,
}

impl IsolationLevels for MySqlTransactions {}

impl TransactionSource for MySqlTransactions {
    type Pool = MySqlPool;
    type Store = MySqlStore;
    type Isolation = Isolation;
    type Transaction = Transaction;

    fn new(pool: MySqlPool) -> Self {
        Self { pool }
    }

    fn pool(store: &MySqlStore) -> MySqlPool {
        store.pool().clone()
    }

    async fn begin(&self, isolation: Isolation, _: &mut RetryPauses) -> Result<Transaction> {
        Transaction::begin(self.pool.clone(), begin(isolation)).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<()> {
        transaction.commit().await
    }

    async fn rollback(&self, transaction: Transaction) {
        let _ = transaction.rollback().await;
    }

    fn is_retryable(error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}
