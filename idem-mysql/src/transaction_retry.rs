//! Repeats transactions as a whole.

use std::error::Error as StdError;
use std::fmt::Debug;

use idem_core::Result;
use idem_core::backend::RetryPauses;
use idem_sql::transactions::{Isolation, IsolationLevels, OfTheStore, TransactionSource};
use sqlx::MySqlPool;

use crate::drivers::CallerTransaction;
use crate::error::is_transaction_retryable;
use crate::store::MySqlStore;
use crate::transaction::Transaction;

/// Begins with a savepoint, by which the commit sees that the transaction is the one that was begun.
/// With `autocommit = 0` nothing commits after the transaction has ended under the work, as by a
/// deadlock whose error it ignores.
macro_rules! begin {
    ($level:literal) => {
        concat!(
            "SET @idem_autocommit = @@autocommit, autocommit = 0; SET TRANSACTION ISOLATION LEVEL ",
            $level,
            "; START TRANSACTION; SAVEPOINT idem_begun"
        )
    };
}

fn begin(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => begin!("READ COMMITTED"),
        Isolation::RepeatableRead => begin!("REPEATABLE READ"),
        Isolation::Serializable => begin!("SERIALIZABLE"),
    }
}

/// Runs transactions, and repeats each as a whole after a deadlock or a failed certification
/// (1213), a lock of another transaction (1205, 3572, `Contention`), or a row that changed under a
/// snapshot (1020).
///
/// ```no_run
/// # async fn pay(store: idem_mysql::MySqlStore, key: &idem_core::Key) -> Result<String, idem_core::BoxError> {
/// let transactions = idem_mysql::Transactions::new(&store);
/// let idempotency = idem_core::Idempotency::new(store);
/// let pay = idempotency.run_in(&transactions, key, &("EUR", 1250), async |mut tx, _work| {
///     let insert = sqlx::query("INSERT INTO payments VALUES (1250)");
///     insert.execute(&mut **tx).await?;
///     Ok("receipt 1".to_owned())
/// });
/// Ok(pay.await.map_err(|error| error.to_string())?.into_inner())
/// # }
/// ```
///
/// A commit that was under way when its future was dropped goes on.
pub type Transactions = idem_sql::transactions::Transactions<MySqlTransactions>;

/// The attempts at one transaction: see [`Transactions`].
pub type TransactionRetry = idem_sql::transactions::TransactionRetry<MySqlTransactions>;

/// [`Transactions`] on a pool of mysql_async, made by `on(&store, pool)`. A work sends its
/// statements by a [`MySqlAsyncTransaction`](crate::MySqlAsyncTransaction).
#[cfg(feature = "mysql_async")]
pub type MySqlAsyncTransactions =
    idem_sql::transactions::Transactions<MySqlTransactions<mysql_async::Pool>>;

/// The pool of a driver.
pub trait Connections: Clone + Debug + Send + Sync + 'static {
    /// An open transaction.
    type Transaction: CallerTransaction + 'static;

    /// Begins a transaction with these statements. A future that is dropped leaves nothing open.
    fn begin(&self, text: &'static str) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// Commits it, as [`Transaction::commit`] does.
    fn commit(transaction: Self::Transaction) -> impl Future<Output = Result<()>> + Send;

    /// Rolls it back.
    fn roll_back(transaction: Self::Transaction) -> impl Future<Output = ()> + Send;
}

impl Connections for MySqlPool {
    type Transaction = Transaction;

    async fn begin(&self, text: &'static str) -> Result<Transaction> {
        Transaction::begin(self.clone(), text).await
    }

    async fn commit(transaction: Transaction) -> Result<()> {
        transaction.commit().await
    }

    async fn roll_back(transaction: Transaction) {
        let _ = transaction.rollback().await;
    }
}

/// Transactions of a pool.
#[derive(Debug, Clone)]
pub struct MySqlTransactions<C = MySqlPool> {
    pool: C,
}

impl<C: Connections> IsolationLevels for MySqlTransactions<C> {}

impl OfTheStore for MySqlTransactions {
    fn pool(store: &MySqlStore) -> MySqlPool {
        store.pool().clone()
    }
}

impl<C: Connections> TransactionSource for MySqlTransactions<C> {
    type Pool = C;
    type Store = MySqlStore;
    type Isolation = Isolation;
    type Transaction = C::Transaction;

    fn new(pool: C) -> Self {
        Self { pool }
    }

    async fn begin(&self, isolation: Isolation, _: &mut RetryPauses) -> Result<C::Transaction> {
        self.pool.begin(begin(isolation)).await
    }

    async fn commit(&self, transaction: C::Transaction) -> Result<()> {
        C::commit(transaction).await
    }

    async fn rollback(&self, transaction: C::Transaction) {
        C::roll_back(transaction).await;
    }

    fn is_retryable(error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}
