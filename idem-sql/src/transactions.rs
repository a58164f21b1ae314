//! Repeats callers' transactions as a whole.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::time::Duration;

use idem_core::backend::{LockedKeys, RetryPauses};
use idem_core::engine::{Exclusion, Transactional, as_store};
use idem_core::{
    BoxError, Claim, ClaimOutcome, ClaimRequest, Error, ErrorKind, IdempotencyStore, Key, Record,
    Response, Result,
};

use crate::config::MAX_TIME;

/// How a driver begins and ends transactions.
pub trait TransactionSource: Clone + Debug + Send + Sync + 'static {
    /// The pool of the connections.
    type Pool;
    /// The store whose records the transactions write.
    type Store: RecordsIn<Self::Transaction> + Clone;
    /// An open transaction. Dropped, it is rolled back.
    type Transaction: Send + 'static;
    /// How much a transaction sees of others, or shares with them.
    type Isolation: Copy + Debug + Default + Send + Sync;

    /// Creates transactions on this pool.
    fn new(pool: Self::Pool) -> Self;

    /// Begins a transaction. A future that is dropped leaves nothing open.
    fn begin(
        &self,
        isolation: Self::Isolation,
        pauses: &mut RetryPauses,
    ) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// Begins a transaction for the engine, or joins one that works share. Default: never shared.
    fn begin_shared(
        &self,
        isolation: Self::Isolation,
        pauses: &mut RetryPauses,
    ) -> impl Future<Output = Result<Self::Transaction>> + Send {
        self.begin(isolation, pauses)
    }

    /// Returns whether the transaction has uncommitted rows of other works.
    fn is_shared(&self, _: &Self::Transaction) -> bool {
        false
    }

    /// Looks up a record: see [`Transactional::look_up`].
    fn look_up(
        &self,
        store: &Self::Store,
        key: &Key,
        _exclusion: Exclusion,
    ) -> impl Future<Output = Result<Option<Record>>> + Send {
        async move { store.get(key).await }
    }

    /// Begins a transaction that holds the request's key by a lock: see
    /// [`Transactional::begin_for`].
    fn begin_for(
        &self,
        _store: &Self::Store,
        _isolation: Self::Isolation,
        _request: &ClaimRequest,
        _exclusion: Exclusion,
    ) -> impl Future<Output = Result<Option<Self::Transaction>>> + Send {
        async { Ok(None) }
    }

    /// Inserts the completed record: see [`Transactional::insert`].
    fn insert(
        &self,
        _store: &Self::Store,
        _transaction: &mut Self::Transaction,
        _request: &ClaimRequest,
        _response: &Response,
        _retention: Duration,
    ) -> impl Future<Output = Result<Option<Claim>>> + Send {
        async { Ok(None) }
    }

    /// Completes a claim in a transaction of the engine, unless the work has ended it: see
    /// [`Transactional::seal`].
    fn seal(
        &self,
        store: &Self::Store,
        transaction: &mut Self::Transaction,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> impl Future<Output = Result<()>> + Send {
        async move {
            self.check(transaction)?;
            store
                .completes(transaction, claim, response, retention)
                .await
        }
    }

    /// Commits the transaction.
    fn commit(&self, transaction: Self::Transaction) -> impl Future<Output = Result<()>> + Send;

    /// Rolls the transaction back. A failure is not reported: the connection is gone then.
    fn rollback(&self, transaction: Self::Transaction) -> impl Future<Output = ()> + Send;

    /// Returns an error when the transaction is no longer the one that was begun. Default: the
    /// commit finds out.
    fn check(&self, _: &Self::Transaction) -> Result<()> {
        Ok(())
    }

    /// Returns whether to repeat the whole transaction after this error.
    fn is_retryable(error: &(dyn StdError + 'static)) -> bool;
}

/// A driver of which the store has a pool.
pub trait OfTheStore: TransactionSource {
    /// Returns the pool of the store.
    fn pool(store: &Self::Store) -> Self::Pool;
}

/// A store that writes its records in transactions `T` of a driver.
pub trait RecordsIn<T>: IdempotencyStore {
    /// Returns whether both are clones of one store.
    fn is_same(&self, other: &Self) -> bool;

    /// Claims a key in the transaction.
    fn claims(
        &self,
        transaction: &mut T,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<ClaimOutcome>> + Send;

    /// Completes a claim in the transaction.
    fn completes(
        &self,
        transaction: &mut T,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// A driver whose transactions have isolation levels, or may be shared.
pub trait IsolationLevels: TransactionSource {}

/// How much a transaction sees of others, on servers with the levels of the SQL standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees the rows that were committed before it.
    #[default]
    ReadCommitted,
    /// Plain reads see the rows that were committed before the first read.
    RepeatableRead,
    /// As if transactions ran one after the other.
    Serializable,
}

/// Runs transactions, and repeats each as a whole when a concurrent one got in its way.
#[derive(Debug, Clone)]
pub struct Transactions<S: TransactionSource> {
    store: S::Store,
    source: S,
    isolation: S::Isolation,
    limit: Duration,
}

impl<S: TransactionSource> Transactions<S> {
    /// Creates transactions on the pool of this store, under READ COMMITTED where the server has
    /// isolation levels. Each is repeated for at most 10 s.
    #[must_use]
    pub fn new(store: &S::Store) -> Self
    where
        S: OfTheStore,
    {
        Self::on(store, S::pool(store))
    }

    /// Creates transactions on another pool of the same database, as [`new`](Self::new) does.
    #[must_use]
    pub fn on(store: &S::Store, pool: S::Pool) -> Self {
        Self {
            store: store.clone(),
            source: S::new(pool),
            isolation: S::Isolation::default(),
            limit: Duration::from_secs(10),
        }
    }

    /// Sets the isolation level; on SQLite, whether the works of the engine share transactions.
    #[must_use]
    pub fn with_isolation(mut self, isolation: S::Isolation) -> Self
    where
        S: IsolationLevels,
    {
        self.isolation = isolation;
        self
    }

    /// Sets how long a transaction of [`attempts`](Self::attempts) is repeated. Default: 10 s; more than a year counts as a year.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit.min(MAX_TIME);
        self
    }

    /// Starts a transaction that is repeated until it goes through: with a deadline, and a pause
    /// that grows.
    ///
    /// The work must act through its transaction alone, and use one key: after a commit whose
    /// answer was lost, the caller runs it again and meets the record.
    #[must_use]
    pub fn attempts(&self) -> TransactionRetry<S> {
        TransactionRetry {
            source: self.source.clone(),
            isolation: self.isolation,
            pauses: RetryPauses::new(self.limit),
        }
    }
}

impl<S: TransactionSource> Transactional for Transactions<S> {
    type Transaction = S::Transaction;

    fn is_of(&self, store: &dyn IdempotencyStore) -> bool {
        as_store::<S::Store>(store).is_some_and(|store| store.is_same(&self.store))
    }

    async fn begin(&self) -> Result<S::Transaction> {
        let mut pauses = RetryPauses::new(self.limit);
        self.source.begin_shared(self.isolation, &mut pauses).await
    }

    async fn look_up(
        &self,
        _: &dyn IdempotencyStore,
        key: &Key,
        exclusion: Exclusion,
    ) -> Result<Option<Record>> {
        self.source.look_up(&self.store, key, exclusion).await
    }

    async fn begin_for(
        &self,
        request: &ClaimRequest,
        exclusion: Exclusion,
    ) -> Result<Option<S::Transaction>> {
        self.source
            .begin_for(&self.store, self.isolation, request, exclusion)
            .await
    }

    async fn insert(
        &self,
        transaction: &mut S::Transaction,
        request: &ClaimRequest,
        response: &Response,
        retention: Duration,
    ) -> Result<Option<Claim>> {
        let (source, store) = (&self.source, &self.store);
        source
            .insert(store, transaction, request, response, retention)
            .await
    }

    async fn claim(
        &self,
        transaction: &mut S::Transaction,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let claimed = self.store.claims(transaction, request).await?;
        match claimed {
            ClaimOutcome::Acquired(_) => Ok(claimed),
            // The record may be one that is not committed: the next lookup finds out.
            _ if self.source.is_shared(transaction) => Err(LockedKeys::error()),
            _ => Ok(claimed),
        }
    }

    async fn seal(
        &self,
        transaction: &mut S::Transaction,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let (source, store) = (&self.source, &self.store);
        source
            .seal(store, transaction, claim, response, retention)
            .await
    }

    async fn commit(&self, transaction: S::Transaction) -> Result<()> {
        self.source.commit(transaction).await
    }

    async fn roll_back(&self, transaction: S::Transaction) {
        self.source.rollback(transaction).await;
    }

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool {
        S::is_retryable(error)
    }
}

/// The attempts at one transaction: see [`Transactions::attempts`].
#[derive(Debug)]
pub struct TransactionRetry<S: TransactionSource> {
    source: S,
    isolation: S::Isolation,
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
    /// Nothing is left open: a transaction that began after the future was dropped is rolled back.
    pub async fn begin(&mut self) -> Result<S::Transaction> {
        self.source.begin(self.isolation, &mut self.pauses).await
    }

    /// Commits when the result is `Ok`, and rolls back otherwise. Returns `None`, after a pause,
    /// when a concurrent transaction got in the way and the limit has not passed: begin again.
    ///
    /// # Errors
    ///
    /// Those of the work and of the commit. Once the limit has passed, the last error that could be
    /// repeated.
    ///
    /// # Cancellation
    ///
    /// The transaction is rolled back, unless the commit was under way.
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

/// Returns whether this error, or the first of its sources that says so, justifies another
/// transaction: [`Contention`](ErrorKind::Contention) of a store, or a `lost_race` of the driver.
/// `lost_race` returns `None` for errors that are not the driver's.
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
