//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::error::Error as StdError;
use std::fmt;
use std::ops::{Deref, DerefMut};

use idem_core::backend::RetryPauses;
use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::transactions::{IsolationLevels, OfTheStore, TransactionSource};

use crate::error::{Access, classify, is_transaction_retryable};
use crate::executor::first_number;
use crate::pool::{self, Client, Pool};
use crate::session::ConnectionGuard;
use crate::store::{BACKEND, MssqlStore};

idem_sql::store_in_transaction! {
    /// Operations in a caller's transaction: the record and the caller's own rows commit together.
    /// There is no other true exactly-once.
    ///
    /// Two ways:
    ///
    /// - Claim outside, and run only [`complete_in`](Self::complete_in) in the transaction that
    ///   writes the business rows. Others see the key in flight while the work runs.
    /// - Run [`claim_in`](Self::claim_in) and `complete_in` both in the transaction. Others that
    ///   claim the key get `Contention` until it ends (or in flight, where the record was committed
    ///   before), and a rollback leaves no trace of the claim. Claims of other keys go on.
    ///
    /// These methods wait at most [`idem_core::backend::MAX_LOCK_WAIT`] for a key that another
    /// transaction holds, and then return `Contention`.
    ///
    /// `client` is a [`Transaction`], or the driver's client after `begin_transaction()`; without
    /// an open transaction each statement commits by itself.
    ///
    /// An error of the server fails the transaction, and has rolled it back: repeat it as a whole,
    /// with the same key. [`Transactions`] does that.
    MssqlStore, BACKEND, client: &mut Client,
    cancellation: "The transaction and its connection are in an unknown state: drop both.",
    claim: "As for `claim`. `Contention` also when another transaction holds the key, or another claim of it came \
            first: repeat the transaction as a whole.",
    advance: "As for `advance`. `Contention` also when another transaction holds the source, or another one marked it \
              first.",
    record: |store, _key| store.operations.in_transaction(client).await,
    mark: |store, _source| store.operations.in_transaction(client).await,
}

idem_sql::records_in! {
    [] MssqlStore, Transaction,
    |store, transaction, _key| store.operations.in_transaction(transaction).await,
}

idem_sql::store_admin! {
    MssqlStore, BACKEND, MssqlTransactions,
    |store, transaction, _key| store.operations.in_transaction(transaction).await,
}

/// How much a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees the rows that were committed before it: the default.
    #[default]
    ReadCommitted,
    /// Rows that were read stay as they were.
    RepeatableRead,
    /// All statements see the rows that were committed before the first; the database has to allow
    /// it (`ALLOW_SNAPSHOT_ISOLATION`).
    Snapshot,
    /// As if transactions ran one after the other. Two that claim one key may end in a deadlock
    /// (1205).
    Serializable,
}

/// The level of pooled connections.
const DEFAULT_LEVEL: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;";

/// The settings of a new connection. SQL Server restores them after the store's own requests;
/// Babelfish does not, and the store's settings must not affect the caller's statements.
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

/// An open transaction on a connection of the pool. It derefs to the driver's client, for the
/// caller's own statements.
///
/// Dropped without [`commit`](Self::commit) or [`rollback`](Self::rollback), it closes its
/// connection, and the server rolls it back.
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

    /// Commits the transaction and gives the connection back.
    ///
    /// # Errors
    ///
    /// The server's error; `Unavailable` with an unknown effect when the answer was lost. The
    /// connection is closed.
    ///
    /// # Cancellation
    ///
    /// The transaction is committed or rolled back.
    pub async fn commit(self) -> Result<()> {
        self.end("COMMIT TRANSACTION;", "commit", Access::Write)
            .await
    }

    /// Rolls the transaction back, if the server has not done so before, and gives the connection
    /// back.
    ///
    /// # Errors
    ///
    /// The server's error; the connection is then closed, which rolls back, too.
    ///
    /// # Cancellation
    ///
    /// The transaction is rolled back.
    pub async fn rollback(self) -> Result<()> {
        let rollback = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;";
        self.end(rollback, "rollback", Access::Read).await
    }

    /// Rolls back, so that no lock is held when this returns, and closes the connection, whose
    /// state is unknown after an error.
    async fn abort(mut self) {
        let rollback = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;";
        // A failure is not reported: the connection is gone then.
        let _ = pool::read_script(self.connection.client_mut(), rollback).await;
    }

    /// Ends the transaction. The isolation level would outlast it, and so would a transaction that
    /// was begun inside of it.
    async fn end(mut self, end: &str, operation: &'static str, sent: Access) -> Result<()> {
        let at = |error: Error| error.at(BACKEND, operation);
        let script = format!("{end} {DEFAULT_LEVEL} SELECT @@TRANCOUNT;");
        let results = pool::read_script(self.connection.client_mut(), &script).await;
        let results = results.map_err(|error| at(classify(error, sent)))?;
        if first_number(results).map_err(at)? != 0 {
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

/// Runs transactions, and repeats each as a whole after a deadlock (1205), a conflict of row
/// versions (3960), or `Contention` of this crate: see [`is_transaction_retryable`]. The limit
/// includes the begin.
///
/// ```no_run
/// # async fn pay(store: idem_mssql::MssqlStore, key: &idem_core::Key) -> Result<String, idem_core::BoxError> {
/// let transactions = idem_mssql::Transactions::new(&store);
/// let idempotency = idem_core::Idempotency::new(store);
/// let pay = idempotency.run_in(&transactions, key, &("EUR", 1250), async |mut tx, _work| {
///     tx.execute("INSERT INTO payments VALUES (1250)", &[]).await?;
///     Ok("receipt 1".to_owned())
/// });
/// Ok(pay.await.map_err(|error| error.to_string())?.into_inner())
/// # }
/// ```
pub type Transactions = idem_sql::transactions::Transactions<MssqlTransactions>;

/// The attempts at one transaction: see [`Transactions`].
pub type TransactionRetry = idem_sql::transactions::TransactionRetry<MssqlTransactions>;

/// Transactions of a pool.
#[derive(Debug, Clone)]
pub struct MssqlTransactions {
    pool: Pool,
}

impl IsolationLevels for MssqlTransactions {}

impl OfTheStore for MssqlTransactions {
    fn pool(store: &MssqlStore) -> Pool {
        store.pool().clone()
    }
}

impl TransactionSource for MssqlTransactions {
    type Pool = Pool;
    type Store = MssqlStore;
    type Isolation = Isolation;
    type Transaction = Transaction;

    fn new(pool: Pool) -> Self {
        Self { pool }
    }

    async fn begin(&self, isolation: Isolation, pauses: &mut RetryPauses) -> Result<Transaction> {
        let begun = Transaction::begin(&self.pool, isolation);
        let begun = tokio::time::timeout_at(pauses.deadline(), begun).await;
        begun.unwrap_or_else(|_| {
            let message =
                "no transaction began in time; the server is overloaded, or the pool is too small";
            Err(Error::new(ErrorKind::Unavailable, Effect::None, message).at(BACKEND, "begin"))
        })
    }

    async fn commit(&self, transaction: Transaction) -> Result<()> {
        transaction.commit().await
    }

    async fn rollback(&self, transaction: Transaction) {
        transaction.abort().await;
    }

    fn is_retryable(error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}
