//! Transactions of callers that are repeated as a whole.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::time::Duration;

use idem_core::backend::RetryPauses;
use idem_core::{BoxError, Error, ErrorKind, Result};

use crate::config::LONGEST_TIME;

/// How a driver begins and ends transactions.
pub trait TransactionSource: Clone + Debug + Send + Sync + 'static {
    /// Where the connections come from.
    type Pool;
    /// An open transaction. Dropped, it is rolled back.
    type Transaction: Send;

    /// Transactions on this pool, at the usual isolation level.
    fn new(pool: Self::Pool) -> Self;

    /// Begins one. A future that is dropped leaves nothing open.
    fn begin(
        &self,
        pauses: &mut RetryPauses,
    ) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// Commits it.
    fn commit(&self, transaction: Self::Transaction) -> impl Future<Output = Result<()>> + Send;

    /// Rolls it back. That this failed is not what the caller wants to know: the connection is gone
    /// then.
    fn rollback(&self, transaction: Self::Transaction) -> impl Future<Output = ()> + Send;

    /// Whether the whole transaction is to be repeated after this error.
    fn is_retryable(error: &(dyn StdError + 'static)) -> bool;
}

/// A driver whose transactions have isolation levels.
pub trait IsolationLevels: TransactionSource {
    /// What a transaction sees of others.
    type Isolation;

    /// Another level for the transactions that begin from now on.
    fn set_isolation(&mut self, isolation: Self::Isolation);
}

/// What a transaction sees of others, on servers with the levels of the SQL standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    #[default]
    ReadCommitted,
    /// Plain reads see what was committed before the first.
    RepeatableRead,
    /// As if transactions ran one after the other.
    Serializable,
}

/// Runs transactions, each repeated as a whole when a concurrent one got in its way.
#[derive(Debug, Clone)]
pub struct Transactions<S> {
    source: S,
    limit: Duration,
}

impl<S: TransactionSource> Transactions<S> {
    /// Transactions on this pool, each repeated for at most 10 s; under READ COMMITTED, where there
    /// are isolation levels.
    #[must_use]
    pub fn new(pool: S::Pool) -> Self {
        Self {
            source: S::new(pool),
            limit: Duration::from_secs(10),
        }
    }

    /// Another isolation level.
    #[must_use]
    pub fn with_isolation(mut self, isolation: S::Isolation) -> Self
    where
        S: IsolationLevels,
    {
        self.source.set_isolation(isolation);
        self
    }

    /// For how long a transaction is repeated. Default: 10 s; more than a year counts as a year.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit.min(LONGEST_TIME);
        self
    }

    /// A transaction that is repeated until it goes through: a deadline and a pause that grows.
    ///
    /// The work does nothing but through its transaction, and uses one key: after a commit whose
    /// answer was lost the caller runs it again and meets the record.
    #[must_use]
    pub fn attempts(&self) -> TransactionRetry<S> {
        TransactionRetry {
            source: self.source.clone(),
            pauses: RetryPauses::new(self.limit),
        }
    }
}

/// The attempts at one transaction: see [`Transactions::attempts`].
#[derive(Debug)]
pub struct TransactionRetry<S> {
    source: S,
    pauses: RetryPauses,
}

impl<S: TransactionSource> TransactionRetry<S> {
    /// Begins the transaction, for the first time or again.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Contention`, `Misconfigured`.
    ///
    /// # Cancellation
    ///
    /// Nothing is left open: a transaction that began for nobody is rolled back.
    pub async fn begin(&mut self) -> Result<S::Transaction> {
        self.source.begin(&mut self.pauses).await
    }

    /// Commits when the result is good and rolls back when it is not. `None`, after a pause, when a
    /// concurrent transaction got in the way and the limit has not passed: begin again.
    ///
    /// # Errors
    ///
    /// Those of the work and of the commit, and, once the limit has passed, the last one that could
    /// be repeated.
    ///
    /// # Cancellation
    ///
    /// The transaction is rolled back unless the commit was under way.
    pub async fn finish<T, E: Into<BoxError>>(
        &mut self,
        transaction: S::Transaction,
        result: Result<T, E>,
    ) -> Option<Result<T, BoxError>> {
        let result = match result.map_err(Into::into) {
            Ok(value) => {
                let committed = self.source.commit(transaction).await;
                committed.map(|()| value).map_err(BoxError::from)
            }
            Err(error) => {
                self.source.rollback(transaction).await;
                Err(error)
            }
        };
        self.pauses.settle(result, S::is_retryable).await
    }
}

/// Whether this error, or the first one among its sources that says so, is worth another
/// transaction: [`Contention`](ErrorKind::Contention) of a store, or a `lost_race` of the driver,
/// which returns `None` for errors that are not the driver's.
pub fn is_retryable(
    error: &(dyn StdError + 'static),
    lost_race: impl Fn(&(dyn StdError + 'static)) -> Option<bool>,
) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let own = error.downcast_ref::<Error>();
        if own.is_some_and(|error| error.kind() == ErrorKind::Contention) {
            return true;
        }
        if let Some(is_lost) = lost_race(error) {
            return is_lost;
        }
        next = error.source();
    }
    false
}
