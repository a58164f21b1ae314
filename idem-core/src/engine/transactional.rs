//! [`Transactional`]: the transactions of a driver; [`Tx`]: one that the work holds.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Exclusion;
use crate::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, IdempotencyStore, Key, Record,
    Response, Result,
};

/// The transactions of a driver on the database that holds the records, for
/// [`Idempotency::run_in`](crate::Idempotency::run_in) and [`Work::commit`](crate::Work::commit).
///
/// The crates of the databases implement it as `Transactions`, made from their store.
pub trait Transactional: fmt::Debug + Send + Sync {
    /// An open transaction. Dropped, it is rolled back.
    type Transaction: Send + 'static;

    /// Returns whether the transactions write the records of this store.
    fn is_of(&self, store: &dyn IdempotencyStore) -> bool;

    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Contention`, `Misconfigured`.
    ///
    /// # Cancellation
    ///
    /// Nothing is left open.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// Looks up the record of a key, before there is a transaction. Default:
    /// [`get`](IdempotencyStore::get). Where an exclusive [`begin_for`](Self::begin_for) checks for
    /// a record itself, an implementation may return `None` for a key that is probably fresh.
    ///
    /// # Errors
    ///
    /// As for `get`.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    fn look_up(
        &self,
        store: &dyn IdempotencyStore,
        key: &Key,
        _exclusion: Exclusion,
    ) -> impl Future<Output = Result<Option<Record>>> + Send {
        async move { store.get(key).await }
    }

    /// Begins a transaction without a record, for a key whose lookup has found none. It locks the
    /// key, or is optimistic. Returns `None` where a claim is as cheap; the default.
    ///
    /// # Errors
    ///
    /// As for [`begin`](Self::begin); `Contention` when another transaction holds the key, or the
    /// key has a record.
    ///
    /// # Cancellation
    ///
    /// Nothing is left open.
    fn begin_for(
        &self,
        _request: &ClaimRequest,
        _exclusion: Exclusion,
    ) -> impl Future<Output = Result<Option<Self::Transaction>>> + Send {
        async { Ok(None) }
    }

    /// Inserts the completed record in a transaction of [`begin_for`](Self::begin_for), and returns
    /// the claim that it holds. `None` when a record is there by now that this request may not
    /// acquire.
    ///
    /// # Errors
    ///
    /// As for [`complete`](IdempotencyStore::complete).
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    fn insert(
        &self,
        _transaction: &mut Self::Transaction,
        _request: &ClaimRequest,
        _response: &Response,
        _retention: Duration,
    ) -> impl Future<Output = Result<Option<Claim>>> + Send {
        async { Ok(None) }
    }

    /// [`claim`](IdempotencyStore::claim) in the transaction.
    ///
    /// # Errors
    ///
    /// As for `claim`; `Contention` when another open transaction holds the key.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    fn claim(
        &self,
        transaction: &mut Self::Transaction,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<ClaimOutcome>> + Send;

    /// [`complete`](IdempotencyStore::complete) in the transaction.
    ///
    /// # Errors
    ///
    /// As for `complete`; [`transaction_ended`] where the transaction is not the one that began.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    fn seal(
        &self,
        transaction: &mut Self::Transaction,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// Without effect, nothing is committed. With an unknown one, either all of it or nothing is.
    /// [`transaction_ended`], as for [`seal`](Self::seal).
    ///
    /// # Cancellation
    ///
    /// As after an unknown effect.
    fn commit(&self, transaction: Self::Transaction) -> impl Future<Output = Result<()>> + Send;

    /// Rolls the transaction back. A failure is not reported: the connection is gone then.
    fn roll_back(&self, transaction: Self::Transaction) -> impl Future<Output = ()> + Send;

    /// Returns whether this error calls for the whole transaction once more: a deadlock, a
    /// serialization failure, a lock that was not free in time.
    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool;
}

/// Returns the error of a transaction that has ended under the work, which is
/// [`Misconfigured`](ErrorKind::Misconfigured).
///
/// With an unknown effect, the work may have committed some of its rows, and its claim with them:
/// the engine then fails the claim, so that no later call repeats these rows.
#[must_use]
pub fn transaction_ended(effect: Effect) -> Error {
    let message = "the work has ended its transaction: by COMMIT, ROLLBACK or DDL in a statement, or by an \
                   error that rolls it back and that the work has not returned; the result is not stored";
    Error::new(ErrorKind::Misconfigured, effect, message)
}

/// Returns the store as an `S`, or as a shared `S`.
#[must_use]
pub fn as_store<S: IdempotencyStore>(store: &dyn IdempotencyStore) -> Option<&S> {
    let store: &dyn Any = store;
    let shared = || store.downcast_ref::<Arc<S>>().map(|store| &**store);
    store.downcast_ref::<S>().or_else(shared)
}

/// An open transaction that the work writes its rows in: a smart pointer to the driver's.
///
/// The engine commits it when the work has returned `Ok`, and rolls it back otherwise. So the work
/// drops it before it returns, which every `async` block does by itself. Where a task that the work
/// has spawned still holds it, the run fails and nothing is committed.
pub struct Tx<T>(OwnedMutexGuard<T>);

impl<T> Deref for Tx<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Tx<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> fmt::Debug for Tx<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").finish_non_exhaustive()
    }
}

/// A transaction that can be lent and taken back.
#[derive(Debug)]
pub struct Lent<T>(Arc<Mutex<T>>);

impl<T> Lent<T> {
    /// Makes the transaction ready to be lent.
    pub fn new(transaction: T) -> Self {
        Self(Arc::new(Mutex::new(transaction)))
    }

    /// Lends the transaction; `None` while somebody has it.
    #[must_use]
    pub fn lend(&self) -> Option<Tx<T>> {
        Arc::clone(&self.0).try_lock_owned().ok().map(Tx)
    }

    /// Takes the transaction back; `None` while somebody has it, who then rolls it back at last.
    #[must_use]
    pub fn take(self) -> Option<T> {
        Arc::try_unwrap(self.0).ok().map(Mutex::into_inner)
    }
}
