//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use idem_core::backend::RetryPauses;
use idem_core::{
    BoxError, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Response,
    Result,
};

use crate::config::MAX_TIMEOUT;
use crate::error::{Access, classify, is_transaction_retryable};
use crate::pool::{self, Client, Pool};
use crate::row::Columns;
use crate::session::ConnectionGuard;
use crate::store::{BACKEND, MssqlStore};

/// The record and the caller's own rows commit together: the only true exactly-once there is.
///
/// Either the claim is taken outside, and only [`complete_in`](Self::complete_in) runs in the transaction that
/// writes the business rows: others see the key in flight while the work runs. Or
/// [`claim_in`](Self::claim_in) and `complete_in` both run in it: others that claim the key are told `Contention` until the
/// transaction ends (or that it is in flight, where its record was committed before), and a rollback leaves no trace of
/// the claim. Claims of other keys go on.
///
/// These calls wait at most [`idem_core::backend::MAX_LOCK_WAIT`] for a key that another transaction holds, and answer
/// `Contention` then.
///
/// `client` is a [`Transaction`], or the driver's client after `begin_transaction()`; without an open transaction each
/// statement commits by itself.
///
/// An error of the server fails the transaction, and has rolled it back: repeat it as a whole, with the same key.
/// [`Transactions`] does that.
impl MssqlStore {
    /// [`claim`](idem_core::IdempotencyStore::claim) in the caller's transaction.
    ///
    /// # Errors
    ///
    /// As for `claim`. `Contention` also when another transaction holds the key, or another claim of it came first: repeat
    /// the transaction as a whole.
    ///
    /// # Cancellation
    ///
    /// The transaction and its connection are in an unknown state: drop both.
    pub async fn claim_in(
        &self,
        client: &mut Client,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let at = |error: Error| error.at(BACKEND, "claim_in");
        let mut session = self.operations.in_transaction(client).await.map_err(at)?;
        let claimed = self.operations.claim(&mut session, request);
        claimed.await.map_err(at)
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
    /// The transaction and its connection are in an unknown state: drop both.
    pub async fn complete_in(
        &self,
        client: &mut Client,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "complete_in");
        let sealing = self.operations.response(response, retention).map_err(at)?;
        let mut session = self.operations.in_transaction(client).await.map_err(at)?;
        let sealed = self.operations.seal(&mut session, claim, &sealing);
        sealed.await.map_err(at)
    }

    /// [`fail`](idem_core::IdempotencyStore::fail) in the caller's transaction.
    ///
    /// # Errors
    ///
    /// As for `fail`.
    ///
    /// # Cancellation
    ///
    /// The transaction and its connection are in an unknown state: drop both.
    pub async fn fail_in(
        &self,
        client: &mut Client,
        claim: &Claim,
        failure: &Failure,
        retention: Duration,
    ) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, "fail_in");
        let sealing = self.operations.failure(failure, retention).map_err(at)?;
        let mut session = self.operations.in_transaction(client).await.map_err(at)?;
        let sealed = self.operations.seal(&mut session, claim, &sealing);
        sealed.await.map_err(at)
    }
}

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees what was committed before it: the default.
    #[default]
    ReadCommitted,
    /// What was read stays as it was.
    RepeatableRead,
    /// All statements see what was committed before the first; the database has to allow it
    /// (`ALLOW_SNAPSHOT_ISOLATION`).
    Snapshot,
    /// As if transactions ran one after the other. Two that claim one key may end in a deadlock (1205).
    Serializable,
}

/// The level that pooled connections are at.
const DEFAULT_LEVEL: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;";

/// What a new connection has. SQL Server takes the settings of the store's own requests back by itself; Babelfish
/// leaves them, and the caller's statements are not to be bound by them.
const DEFAULT_SETTINGS: &str =
    "SET XACT_ABORT OFF; SET LOCK_TIMEOUT -1; SET IMPLICIT_TRANSACTIONS OFF; SET ROWCOUNT 0;";

impl Isolation {
    fn statement(self) -> &'static str {
        match self {
            Self::ReadCommitted => DEFAULT_LEVEL,
            Self::RepeatableRead => "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;",
            Self::Snapshot => "SET TRANSACTION ISOLATION LEVEL SNAPSHOT;",
            Self::Serializable => "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;",
        }
    }
}

/// An open transaction on a connection of the pool. It derefs to the driver's client, for the caller's own statements.
///
/// Dropped without [`commit`](Self::commit) or [`rollback`](Self::rollback) it closes its connection, and the server
/// rolls it back.
pub struct Transaction {
    connection: ConnectionGuard,
}

impl Transaction {
    /// Begins a transaction on a connection of the pool.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Misconfigured`.
    ///
    /// # Cancellation
    ///
    /// Nothing is left open: the connection is closed.
    pub async fn begin(pool: &Pool, isolation: Isolation) -> Result<Self> {
        let at = |error: Error| error.at(BACKEND, "begin");
        let mut connection = ConnectionGuard::from(pool).await.map_err(at)?;
        connection.mark_dirty();
        let begin = format!(
            "{DEFAULT_SETTINGS} {} BEGIN TRANSACTION;",
            isolation.statement()
        );
        let begun = pool::read_script(connection.client_mut(), &begin).await;
        begun.map_err(|error| at(classify(error, Access::Read)))?;
        Ok(Self { connection })
    }

    /// Commits it and gives the connection back.
    ///
    /// # Errors
    ///
    /// As the server says; `Unavailable` with an unknown effect when the answer was lost. The connection is closed.
    ///
    /// # Cancellation
    ///
    /// It is committed or rolled back.
    pub async fn commit(self) -> Result<()> {
        self.end("COMMIT TRANSACTION;", "commit", Access::Write)
            .await
    }

    /// Rolls it back, if the server has not done so before, and gives the connection back.
    ///
    /// # Errors
    ///
    /// As the server says; the connection is closed then, which rolls back, too.
    ///
    /// # Cancellation
    ///
    /// It is rolled back.
    pub async fn rollback(self) -> Result<()> {
        let rollback = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;";
        self.end(rollback, "rollback", Access::Read).await
    }

    /// Rolls back, so that no lock is held when this returns, and closes the connection: after an error nobody knows
    /// what state it is in.
    async fn abort(mut self) {
        let rollback = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;";
        // That it failed is not what the caller wants to know: the connection is gone then.
        let _ = pool::read_script(self.connection.client_mut(), rollback).await;
    }

    /// The isolation level would outlast the transaction, and so would one that was begun inside of it.
    async fn end(mut self, end: &str, operation: &'static str, sent: Access) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, operation);
        let script = format!("{end} {DEFAULT_LEVEL} SELECT @@TRANCOUNT;");
        let results = pool::read_script(self.connection.client_mut(), &script).await;
        let results = results.map_err(|error| at(classify(error, sent)))?;
        let row = results.iter().flatten().next();
        let row = row.ok_or_else(|| at(Error::corrupt("a count has no row")))?;
        if Columns(row).number(0).map_err(at)? != 0 {
            let message =
                "a transaction was begun inside of this one and not ended; nothing is committed";
            return Err(at(Error::new(ErrorKind::Other, Effect::None, message)));
        }
        self.connection.mark_clean();
        Ok(())
    }
}

impl Deref for Transaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.connection.client()
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut Client {
        self.connection.client_mut()
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

/// Runs transactions, each repeated as a whole after a deadlock (1205), a conflict of row versions (3960), or
/// `Contention` of this crate: see [`is_transaction_retryable`].
#[derive(Debug, Clone)]
pub struct Transactions {
    pool: Pool,
    isolation: Isolation,
    limit: Duration,
}

impl Transactions {
    /// Transactions on this pool, under READ COMMITTED, each repeated for at most 10 s.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
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

    /// For how long a transaction is repeated, and its begin waited for. Default: 10 s; more than a year counts as a
    /// year.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit.min(MAX_TIMEOUT);
        self
    }

    /// A transaction that is to be repeated until it goes through: a deadline and a pause that grows.
    ///
    /// ```no_run
    /// # use idem_core::{BoxError, ClaimOutcome, ClaimRequest};
    /// # use idem_mssql::{MssqlStore, Transaction};
    /// # async fn pay(store: &MssqlStore, request: &ClaimRequest) -> Result<ClaimOutcome, BoxError> {
    /// # async fn work(_: &mut Transaction) -> Result<ClaimOutcome, BoxError> { Err("…".into()) }
    /// let transactions = idem_mssql::Transactions::new(store.pool().clone());
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
        let Transactions {
            pool, isolation, ..
        } = &self.transactions;
        let begun =
            tokio::time::timeout_at(self.pauses.deadline(), Transaction::begin(pool, *isolation));
        begun.await.unwrap_or_else(|_| {
            let message =
                "no transaction began in time; the server is overloaded, or the pool is too small";
            Err(Error::new(ErrorKind::Unavailable, Effect::None, message).at(BACKEND, "begin"))
        })
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
                transaction.abort().await;
                Err(error)
            }
        };
        self.pauses.settle(result, is_transaction_retryable).await
    }
}
