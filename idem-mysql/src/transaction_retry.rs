//! Transactions that are repeated as a whole.

use std::time::Duration;

use idem_core::backend::RetryPauses;
use idem_core::{BoxError, Result};
use sqlx::MySqlPool;

use crate::config::LONGEST_TIME;
use crate::error::is_transaction_retryable;
use crate::transaction::Transaction;

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees what was committed before it; fewer gaps are locked.
    #[default]
    ReadCommitted,
    /// Plain reads see what was committed before the first: the servers' default.
    RepeatableRead,
    /// As if transactions ran one after the other: plain reads lock, too.
    Serializable,
}

/// Runs transactions, each repeated as a whole after a deadlock or a failed certification (1213), a lock that another
/// transaction holds (1205, 3572, `Contention`), or a row that changed under a snapshot (1020).
#[derive(Debug, Clone)]
pub struct Transactions {
    pool: MySqlPool,
    isolation: Isolation,
    limit: Duration,
}

impl Transactions {
    /// Transactions on this pool, under READ COMMITTED, each repeated for at most 10 s.
    #[must_use]
    pub fn new(pool: MySqlPool) -> Self {
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
        self.limit = limit.min(LONGEST_TIME);
        self
    }

    fn statement(&self) -> &'static str {
        match self.isolation {
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
}

impl Transactions {
    /// A transaction that is to be repeated until it goes through: a deadline and a pause that grows.
    ///
    /// ```no_run
    /// # async fn pay(store: &idem_mysql::MySqlStore, request: &idem_core::ClaimRequest)
    /// #     -> Result<idem_core::ClaimOutcome, idem_core::BoxError> {
    /// # async fn work(_: &mut idem_mysql::Transaction) -> Result<idem_core::ClaimOutcome, idem_core::BoxError> { Err("…".into()) }
    /// let transactions = idem_mysql::Transactions::new(store.pool().clone());
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
    pub async fn begin(&mut self) -> Result<Transaction> {
        Transaction::begin(
            self.transactions.pool.clone(),
            self.transactions.statement(),
        )
        .await
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
    /// The transaction is rolled back unless the commit was under way, which then goes on.
    pub async fn finish<T, E: Into<BoxError>>(
        &mut self,
        transaction: Transaction,
        result: Result<T, E>,
    ) -> Option<Result<T, BoxError>> {
        let result = match result.map_err(Into::into) {
            Ok(value) => transaction
                .commit()
                .await
                .map(|()| value)
                .map_err(BoxError::from),
            Err(error) => {
                // That the rollback failed is not what the caller wants to know: the connection is gone then.
                let _ = transaction.rollback().await;
                Err(error)
            }
        };
        self.pauses.settle(result, is_transaction_retryable).await
    }
}
