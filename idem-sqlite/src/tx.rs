//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::error::Error as StdError;

use idem_core::backend::RetryPauses;
use idem_core::{Error, Result};
use idem_sql::transactions::{IsolationLevels, OfTheStore, TransactionSource};
use sqlx::SqlitePool;

use crate::drivers::{CallerTransaction, executor};
use crate::error::{Access, classify, is_transaction_retryable};
use crate::file::DatabaseFile;
use crate::group::{Groups, Sharing, Turn};
use crate::guarded::Transaction;
use crate::session::Session;
use crate::store::{BACKEND, SqliteStore};

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
    /// The transaction is one of sqlx, or of another [driver](CallerTransaction).
    ///
    /// Begin such a transaction with `BEGIN IMMEDIATE`, as [`Transactions`] does, on the same file.
    /// After [`Contention`](idem_core::ErrorKind::Contention) roll it back and repeat it as a
    /// whole, with the same key.
    SqliteStore, BACKEND, transaction: &mut impl CallerTransaction,
    cancellation: "The transaction is in an unknown state: roll it back.",
    claim: "As for `claim`.",
    advance: "As for `advance`.",
    record: |store, _key| store.session_in(transaction),
    mark: |store, _source| store.session_in(transaction),
}

idem_sql::records_in! {
    [T: CallerTransaction] SqliteStore, T,
    |store, transaction, _key| store.session_in(transaction),
}

idem_sql::store_admin! {
    SqliteStore, BACKEND, SqliteTransactions,
    |store, transaction, _key| store.session_in(transaction),
}

impl SqliteStore {
    /// The caller commits, so the store cannot check the file afterwards: see `DatabaseFile`.
    fn session_in<'t>(&self, transaction: &'t mut impl CallerTransaction) -> Result<Session<'t>> {
        self.pools.file.before_write()?;
        Ok(Session::Transaction(executor(transaction)?))
    }
}

/// Runs transactions that hold the write lock from their start, and repeats each as a whole when
/// the database was locked. Works of the engine share transactions: see [`Sharing`].
///
/// The payment's row commits with its record, or neither does:
///
/// ```
/// use idem_core::{Idempotency, Key};
/// use idem_sqlite::{Config, SqliteStore, Transactions};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), idem_core::BoxError> {
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}/shop.db", folder.path().display());
/// let store = SqliteStore::connect(&url, Config::new()).await?;
/// store.migrate().await?;
/// # sqlx::query("CREATE TABLE payments (cents INTEGER NOT NULL)").execute(store.pool()).await?;
/// let transactions = Transactions::new(&store);
/// let idempotency = Idempotency::new(store.clone());
/// let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
/// for _ in 0..2 {
///     let pay = idempotency.run_in(&transactions, &key, &("EUR", 1250), async |mut tx, _| {
///         let insert = sqlx::query("INSERT INTO payments VALUES (1250)");
///         insert.execute(&mut **tx).await?;
///         Ok("receipt 1".to_owned())
///     });
///     let receipt = pay.await.map_err(|error| error.to_string())?;
///     assert_eq!(receipt.into_inner(), "receipt 1");
/// }
/// let payments = sqlx::query_scalar("SELECT count(*) FROM payments");
/// let payments: i64 = payments.fetch_one(store.pool()).await?;
/// assert_eq!(payments, 1, "one row for two calls");
/// # Ok(())
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
    groups: Groups,
}

impl IsolationLevels for SqliteTransactions {}

impl OfTheStore for SqliteTransactions {
    fn pool(store: &SqliteStore) -> SqlitePool {
        store.pool().clone()
    }
}

impl TransactionSource for SqliteTransactions {
    type Pool = SqlitePool;
    type Store = SqliteStore;
    type Isolation = Sharing;
    type Transaction = Transaction;

    fn new(pool: SqlitePool) -> Self {
        let file = DatabaseFile::new(pool.connect_options().get_filename(), false);
        Self {
            pool,
            file,
            groups: Groups::default(),
        }
    }

    async fn begin(&self, _: Sharing, pauses: &mut RetryPauses) -> Result<Transaction> {
        loop {
            let pool = self.pool.clone();
            // Begins in its own task, as in every backend: a future that is dropped while it begins
            // leaves nothing open.
            let begun = tokio::spawn(async move { Transaction::begin(&pool).await }).await;
            match begun.unwrap_or(Err(sqlx::Error::WorkerCrashed)) {
                Err(error) if is_transaction_retryable(&error) && pauses.wait().await => {}
                begun => return begun.map_err(not_begun),
            }
        }
    }

    async fn begin_shared(
        &self,
        sharing: Sharing,
        pauses: &mut RetryPauses,
    ) -> Result<Transaction> {
        if sharing == Sharing::Alone {
            return self.begin(sharing, pauses).await;
        }
        let limit = self.pool.options().get_acquire_timeout();
        let turn = tokio::time::timeout(limit, self.groups.turn()).await;
        match turn.map_err(|_| not_begun(sqlx::Error::PoolTimedOut))? {
            Turn::Join(transaction) => transaction.joined().await.map_err(not_begun),
            Turn::Lead(lead) => Ok(self.begin(sharing, pauses).await?.led_by(lead)),
        }
    }

    fn is_shared(&self, transaction: &Transaction) -> bool {
        transaction.is_shared()
    }

    async fn commit(&self, transaction: Transaction) -> Result<()> {
        transaction.commit().await?;
        // A commit into a deleted file is not acknowledged.
        let kept = self.file.after_write();
        kept.map_err(|error| error.at(BACKEND, "commit"))
    }

    async fn rollback(&self, transaction: Transaction) {
        let _ = transaction.rollback().await;
    }

    fn check(&self, transaction: &Transaction) -> Result<()> {
        transaction.check()
    }

    fn is_retryable(error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}

fn not_begun(error: sqlx::Error) -> Error {
    classify(error, Access::Read).at(BACKEND, "begin")
}
