//! Operations in a caller's transaction.

use idem_core::{Key, Result};

use crate::drivers::CallerTransaction;
use crate::session::Session;
use crate::store::{BACKEND, MySqlStore};
use crate::transaction_retry::MySqlTransactions;

idem_sql::store_in_transaction! {
    /// Operations in a caller's transaction: the record and the caller's own rows commit together.
    /// There is no other true exactly-once.
    ///
    /// Two ways:
    ///
    /// - Claim outside, and run only [`complete_in`](Self::complete_in) in the transaction that
    ///   writes the business rows. Others see the key in flight while the work runs.
    /// - Run [`claim_in`](Self::claim_in) and `complete_in` both in the transaction. A rollback
    ///   leaves no trace of the claim. Others that claim the key meanwhile get `Contention` within
    ///   [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT), as does a caller that completes,
    ///   renews or releases the claim outside of the transaction. The store remembers the key, so
    ///   most of them send nothing to the server. Keep such transactions short all the same.
    ///
    /// The transaction is one of sqlx, [`Transaction`](crate::Transaction) or
    /// `sqlx::MySqlTransaction`, or of another [driver](CallerTransaction). Prefer the first to
    /// sqlx's own: sqlx 0.9.0 hands a connection whose statement was dropped half-way back to the
    /// pool, where it keeps the transaction open, and its locks.
    ///
    /// For a lock that another transaction holds, these methods wait at most as long, and then
    /// return `Contention`. There are two exceptions on MySQL: a plain read under SERIALIZABLE, and
    /// the INSERT of a fresh key in a session that is not READ COMMITTED, which waits up to a
    /// second. Afterwards the session's settings are as before. A transaction that was made
    /// REPEATABLE READ or SERIALIZABLE for itself in a READ COMMITTED session keeps others on MySQL
    /// from inserting next to its fresh key.
    ///
    /// After an error of the server roll the transaction back, also after 1205, which undoes the
    /// statement only, and repeat it as a whole, with the same key.
    /// [`Transactions`](crate::Transactions) does that. Under REPEATABLE READ, the servers'
    /// default, a duplicate may get the answer that was true when the transaction began to read.
    /// The latest version always decides who acquires.
    ///
    /// The store remembers which operations are used in transactions, and reads their keys first:
    /// an insert would meet the lock of a transaction, where a read is answered at once.
    MySqlStore, BACKEND, transaction: &mut impl CallerTransaction,
    cancellation: "The transaction is in an unknown state: roll it back.",
    claim: "As for `claim`, and `Contention` after a deadlock or a lock that another transaction holds.",
    advance: "As for `advance`, and `Contention` after a deadlock or a lock that another transaction holds.",
    record: |store, key| store.record_session(transaction, key),
    mark: |store, _source| store.session_in(transaction),
}

idem_sql::records_in! {
    [T: CallerTransaction] MySqlStore, T,
    |store, transaction, _key| store.session_in(transaction),
}

idem_sql::store_admin! {
    MySqlStore, BACKEND, MySqlTransactions,
    |store, transaction, _key| store.session_in(transaction),
}

impl MySqlStore {
    fn record_session<'t>(
        &'t self,
        transaction: &'t mut impl CallerTransaction,
        key: &Key,
    ) -> Result<Session<'t>> {
        self.operations.estimator.always_expect(key);
        self.session_in(transaction)
    }

    fn session_in<'t>(
        &'t self,
        transaction: &'t mut impl CallerTransaction,
    ) -> Result<Session<'t>> {
        Session::in_transaction(transaction, &self.operations.counters)
    }
}
