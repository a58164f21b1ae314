//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use idem_core::backend::{Batcher, FinalResult, LockedKeys, RetryPauses};
use idem_core::engine::Exclusion;
use idem_core::{Claim, ClaimRequest, IdempotencyStore as _, Key, Record, Response, Result};
use idem_sql::operations::Operations as _;
use idem_sql::schema::fnv_1a;
use idem_sql::transactions::{Isolation, IsolationLevels, OfTheStore, TransactionSource};
use sqlx::PgPool;

use crate::batch::MAX_READS;
use crate::drivers::{CallerTransaction, executor};
use crate::error::is_transaction_retryable;
use crate::session::{Session, wait};
use crate::store::{BACKEND, PostgresStore};
use crate::transaction::Transaction;

idem_sql::store_in_transaction! {
    /// Operations in a caller's transaction: the record and the caller's own rows commit together.
    /// There is no other true exactly-once.
    ///
    /// Two ways:
    ///
    /// - Claim outside, and run only [`complete_in`](Self::complete_in) in the transaction that
    ///   writes the business rows. Others see the key in flight while the work runs.
    /// - Run [`claim_in`](Self::claim_in) and `complete_in` both in the transaction. Others that
    ///   claim the key get `Contention` until it ends, after
    ///   [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT) at most, and a rollback leaves no
    ///   trace of the claim.
    ///
    /// For a key that another open transaction holds, these methods wait at most as long. The
    /// transaction's own `lock_timeout` holds where it is shorter, and is restored when the method
    /// returns.
    ///
    /// The transaction is one of sqlx, or of another [driver](CallerTransaction).
    ///
    /// An error of the server fails the transaction: roll it back and repeat it as a whole, with
    /// the same key, where [`is_transaction_retryable`] says so. [`Transactions`] does that for
    /// sqlx.
    PostgresStore, BACKEND, transaction: &mut impl CallerTransaction,
    cancellation: "The transaction is in an unknown state: roll it back.",
    claim: "As for `claim`; `Contention` when another open transaction holds the key. Under REPEATABLE READ and \
            SERIALIZABLE also `Contention` when the key was claimed after the transaction's snapshot was taken.",
    advance: "As for `advance`; `Contention` until another transaction that advances the same source ends. Under \
              REPEATABLE READ and SERIALIZABLE also `Contention` when the mark was raised after the transaction's \
              snapshot was taken.",
    record: |store, key| store.session_in(transaction, &store.operations.locked, key),
    mark: |store, key| store.session_in(transaction, &store.operations.locked_marks, key),
}

idem_sql::records_in! {
    [T: CallerTransaction] PostgresStore, T,
    |store, transaction, key| store.session_in(transaction, &store.operations.locked, key),
}

idem_sql::store_admin! {
    PostgresStore, BACKEND, PgTransactions,
    |store, transaction, key| store.session_in(transaction, &store.operations.locked, key),
}

impl PostgresStore {
    fn session_in<'t>(
        &self,
        transaction: &'t mut impl CallerTransaction,
        locked: &LockedKeys,
        key: &Key,
    ) -> Result<Session<'t>> {
        Ok(Session::Transaction {
            executor: executor(transaction)?,
            mode: self.operations.config.statement_mode(),
            wait: wait(locked.is_locked(key)),
            is_marked: false,
        })
    }
}

fn begin(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE",
        Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE",
        Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE, READ WRITE",
    }
}

/// Runs transactions, and repeats each as a whole after a serialization failure (40001), a deadlock
/// (40P01), or a lock that was not free in time (55P03): see
/// [`is_transaction_retryable`](crate::is_transaction_retryable).
///
/// ```no_run
/// # async fn pay(store: &idem_postgres::PostgresStore, request: &idem_core::ClaimRequest)
/// #     -> Result<idem_core::ClaimOutcome, idem_core::BoxError> {
/// # async fn work(_: &mut idem_postgres::Transaction) -> Result<idem_core::ClaimOutcome, idem_core::BoxError> { Err("…".into()) }
/// let transactions = idem_postgres::Transactions::new(&store);
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
pub type Transactions = idem_sql::transactions::Transactions<PgTransactions>;

/// [`Transactions`] on a pool of deadpool-postgres, made by `on(&store, pool)`. A work sends its
/// statements by a [`DeadpoolTransaction`](crate::DeadpoolTransaction).
#[cfg(feature = "deadpool-postgres")]
pub type DeadpoolTransactions =
    idem_sql::transactions::Transactions<PgTransactions<deadpool_postgres::Pool>>;

/// The attempts at one transaction: see [`Transactions`].
pub type TransactionRetry = idem_sql::transactions::TransactionRetry<PgTransactions>;

type Lookups = Batcher<Key, Result<Option<Record>>>;

/// The pool of a driver.
pub trait Connections: Clone + Debug + Send + Sync + 'static {
    /// An open transaction.
    type Transaction: CallerTransaction + 'static;

    /// Begins a transaction with these statements. A future that is dropped leaves nothing open.
    fn begin(&self, text: String) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// Commits it.
    fn commit(transaction: Self::Transaction) -> impl Future<Output = Result<()>> + Send;

    /// Rolls it back.
    fn roll_back(transaction: Self::Transaction) -> impl Future<Output = ()> + Send;
}

impl Connections for PgPool {
    type Transaction = Transaction;

    async fn begin(&self, text: String) -> Result<Transaction> {
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
pub struct PgTransactions<C = PgPool> {
    pool: C,
    lookups: Arc<OnceLock<Arc<Lookups>>>,
}

impl<C: Connections> IsolationLevels for PgTransactions<C> {}

impl OfTheStore for PgTransactions {
    fn pool(store: &PostgresStore) -> PgPool {
        store.pool().clone()
    }
}

impl<C: Connections> TransactionSource for PgTransactions<C> {
    type Pool = C;
    type Store = PostgresStore;
    type Isolation = Isolation;
    type Transaction = C::Transaction;

    fn new(pool: C) -> Self {
        Self {
            pool,
            lookups: Arc::default(),
        }
    }

    async fn begin(&self, isolation: Isolation, _: &mut RetryPauses) -> Result<C::Transaction> {
        let text = format!("{}; SET LOCAL idem.attempt = 'begun'", begin(isolation));
        self.pool.begin(text).await
    }

    /// Reads for all callers that wait. With few of them, the record of a key that is probably
    /// fresh is left to an exclusive [`begin_for`](Self::begin_for).
    async fn look_up(
        &self,
        store: &PostgresStore,
        key: &Key,
        exclusion: Exclusion,
    ) -> Result<Option<Record>> {
        if store.operations.config.waits_for_standbys() {
            return store.get(key).await;
        }
        let lookups = self.lookups.get_or_init(|| {
            let store = store.clone();
            Batcher::new(MAX_READS, 2, move |keys: Vec<Key>| {
                let store = store.clone();
                async move {
                    let found = store.operations.get_many(&mut store.session(), &keys).await;
                    match found {
                        Ok(found) => found.into_iter().map(Ok).collect(),
                        Err(error) => {
                            let each = error.for_each_item();
                            keys.iter().map(|_| Err(each())).collect()
                        }
                    }
                }
            })
        });
        let underway = lookups.enter();
        let estimator = &store.operations.estimator;
        let is_alone = !underway.is_in_company();
        if is_alone && exclusion == Exclusion::Exclusive && !estimator.expects_duplicate(key) {
            return Ok(None);
        }
        let found = match is_alone {
            true => None,
            false => lookups.ask(key.clone()).await,
        };
        let found = match found {
            Some(Ok(found)) => found,
            // Another key's record may be damaged.
            Some(Err(_)) | None => store.get(key).await?,
        };
        if found.is_some() {
            estimator.record(key, true);
        }
        Ok(found)
    }

    /// Begins with a mark of the transaction, which is empty when the key's advisory lock was not
    /// free. A second statement, after the lock, looks for a record that was committed since the
    /// lookup. Under READ COMMITTED it sees all rows that were committed before it.
    ///
    /// Under REPEATABLE READ and SERIALIZABLE it may miss that record; the insert then fails with
    /// 40001.
    async fn begin_for(
        &self,
        store: &PostgresStore,
        isolation: Isolation,
        request: &ClaimRequest,
        exclusion: Exclusion,
    ) -> Result<Option<C::Transaction>> {
        let operations = &store.operations;
        if operations.config.waits_for_standbys() {
            return Ok(None);
        }
        let key = request.key();
        let mark = u128::from_be_bytes(*request.attempt().as_bytes());
        let mut mark = format!("'{mark:032x}'");
        if exclusion == Exclusion::Exclusive {
            let table = operations.config.qualified_table();
            let lock = fnv_1a(&format!("{table} {}", key.hashed())).cast_signed();
            mark = format!(
                "CASE WHEN pg_catalog.pg_try_advisory_xact_lock({lock}) THEN {mark} ELSE '' END"
            );
        }
        let begin = begin(isolation);
        let text = format!("{begin}; SELECT pg_catalog.set_config('idem.attempt', {mark}, true)");
        let mut transaction = self.pool.begin(text).await?;
        if exclusion == Exclusion::Optimistic {
            return Ok(Some(transaction));
        }
        let is_free = match store.session_in(&mut transaction, &operations.locked, key) {
            Ok(mut session) => operations.is_free(&mut session, key).await,
            Err(error) => Err(error),
        };
        if let Ok(is_free) = is_free {
            operations.estimator.record(key, !is_free);
        }
        if let Ok(true) = is_free {
            return Ok(Some(transaction));
        }
        self.rollback(transaction).await;
        let error = is_free.err().unwrap_or_else(LockedKeys::error);
        Err(error.at(BACKEND, "begin"))
    }

    async fn insert(
        &self,
        store: &PostgresStore,
        transaction: &mut C::Transaction,
        request: &ClaimRequest,
        response: &Response,
        retention: Duration,
    ) -> Result<Option<Claim>> {
        let operations = &store.operations;
        let result = FinalResult::completed(response, retention, &store.limits())?;
        let mut session = store.session_in(transaction, &operations.locked, request.key())?;
        let inserted = operations.insert_finished(&mut session, request, &result);
        let inserted = inserted.await;
        inserted.map_err(|error| error.at(BACKEND, "insert"))
    }

    async fn seal(
        &self,
        store: &PostgresStore,
        transaction: &mut C::Transaction,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let operations = &store.operations;
        let result = FinalResult::completed(response, retention, &store.limits())?;
        let mut session = store.session_in(transaction, &operations.locked, claim.key())?;
        if let Session::Transaction { is_marked, .. } = &mut session {
            *is_marked = true;
        }
        operations.finish(&mut session, claim, &result).await
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
