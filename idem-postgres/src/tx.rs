//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::error::Error as StdError;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use idem_core::backend::{Batcher, FinalResult, LockedKeys, RetryPauses};
use idem_core::engine::Exclusion;
use idem_core::{Claim, ClaimRequest, IdempotencyStore as _, Key, Record, Response, Result};
use idem_sql::operations::Operations as _;
use idem_sql::schema::fnv_1a;
use idem_sql::transactions::{Isolation, IsolationLevels, TransactionSource};
use sqlx::{AssertSqlSafe, PgPool, PgTransaction};

use crate::batch::MAX_READS;
use crate::config::StatementMode;
use crate::drivers::{CallerTransaction, executor};
use crate::error::{Access, classify, is_transaction_retryable};
use crate::session::{Session, wait};
use crate::store::{BACKEND, PostgresStore};

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
/// # async fn work(_: &mut sqlx::PgTransaction<'_>) -> Result<idem_core::ClaimOutcome, idem_core::BoxError> { Err("…".into()) }
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

/// The attempts at one transaction: see [`Transactions`].
pub type TransactionRetry = idem_sql::transactions::TransactionRetry<PgTransactions>;

type Lookups = Batcher<Key, Result<Option<Record>>>;

/// Transactions of a pool.
#[derive(Debug, Clone)]
pub struct PgTransactions {
    pool: PgPool,
    lookups: Arc<OnceLock<Arc<Lookups>>>,
}

impl PgTransactions {
    /// Begins in its own task, because a future of sqlx 0.9.0 that is dropped while it begins may
    /// leave the transaction open (<https://github.com/transact-rs/sqlx/issues/4385>).
    ///
    /// The mark is a setting that ends with the transaction.
    async fn begun(&self, isolation: Isolation, mark: &str) -> Result<PgTransaction<'static>> {
        let pool = self.pool.clone();
        let text = format!("{}; SET LOCAL idem.attempt = '{mark}'", begin(isolation));
        let begun = tokio::spawn(async move { pool.begin_with(AssertSqlSafe(text)).await }).await;
        let begun = begun.unwrap_or(Err(sqlx::Error::WorkerCrashed));
        begun.map_err(|error| classify(error, Access::Read).at(BACKEND, "begin"))
    }
}

impl IsolationLevels for PgTransactions {}

impl TransactionSource for PgTransactions {
    type Pool = PgPool;
    type Store = PostgresStore;
    type Isolation = Isolation;
    type Transaction = PgTransaction<'static>;

    fn new(pool: PgPool) -> Self {
        Self {
            pool,
            lookups: Arc::default(),
        }
    }

    fn pool(store: &PostgresStore) -> PgPool {
        store.pool().clone()
    }

    async fn begin(
        &self,
        isolation: Isolation,
        _: &mut RetryPauses,
    ) -> Result<PgTransaction<'static>> {
        self.begun(isolation, "begun").await
    }

    /// Reads for all callers that wait.
    async fn look_up(&self, store: &PostgresStore, key: &Key) -> Result<Option<Record>> {
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
        if underway.is_in_company()
            && let Some(Ok(found)) = lookups.ask(key.clone()).await
        {
            return Ok(found);
        }
        // Another key's record may be damaged.
        store.get(key).await
    }

    /// Begins with a mark of the transaction, and takes an advisory lock of the key if it is free.
    ///
    /// The lock has a statement of its own: a text that fails after its BEGIN would leave sqlx 0.9.0
    /// with an open transaction that it does not know of. Under REPEATABLE READ and SERIALIZABLE a
    /// record that was committed since the snapshot fails the insert with 40001.
    async fn begin_for(
        &self,
        store: &PostgresStore,
        isolation: Isolation,
        request: &ClaimRequest,
        exclusion: Exclusion,
    ) -> Result<Option<PgTransaction<'static>>> {
        let operations = &store.operations;
        if operations.config.waits_for_standbys() {
            return Ok(None);
        }
        let key = request.key();
        let mark = u128::from_be_bytes(*request.attempt().as_bytes());
        let mut transaction = self.begun(isolation, &format!("{mark:032x}")).await?;
        if exclusion == Exclusion::Optimistic {
            return Ok(Some(transaction));
        }
        let table = operations.config.qualified_table();
        let lock = fnv_1a(&format!("{table} {}", key.hashed())).cast_signed();
        let free = sqlx::query_scalar("SELECT pg_catalog.pg_try_advisory_xact_lock($1)");
        let free = free.persistent(operations.config.statement_mode() == StatementMode::Prepared);
        let free = free.bind(lock).fetch_one(&mut *transaction).await;
        let free = match free.map_err(|error| classify(error, Access::Read)) {
            // The holder before may have committed between the look-up and the lock.
            Ok(true) => match store.session_in(&mut transaction, &operations.locked, key) {
                Ok(mut session) => operations
                    .get(&mut session, key)
                    .await
                    .map(|it| it.is_none()),
                Err(error) => Err(error),
            },
            free => free,
        };
        if let Ok(true) = free {
            return Ok(Some(transaction));
        }
        self.rollback(transaction).await;
        // The next look-up finds the record.
        let error = free.err().unwrap_or_else(LockedKeys::error);
        Err(error.at(BACKEND, "begin"))
    }

    async fn insert(
        &self,
        store: &PostgresStore,
        transaction: &mut PgTransaction<'static>,
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
        transaction: &mut PgTransaction<'static>,
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

    async fn commit(&self, transaction: PgTransaction<'static>) -> Result<()> {
        let committed = transaction.commit().await;
        committed.map_err(|error| classify(error, Access::Write).at(BACKEND, "commit"))
    }

    async fn rollback(&self, transaction: PgTransaction<'static>) {
        let _ = transaction.rollback().await;
    }

    fn is_retryable(error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}
