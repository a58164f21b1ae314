//! Operations in a caller's transaction.

use idem_core::Key;
use sqlx::mysql::MySqlConnection;

use crate::session::Session;
use crate::store::{BACKEND, MySqlStore};

idem_sql::store_in_transaction! {
    /// The record and the caller's own rows commit together: the only true exactly-once there is.
    ///
    /// Either the claim is taken outside, and only [`complete_in`](Self::complete_in) runs in the
    /// transaction that writes the business rows: others see the key in flight while the work runs.
    /// Or [`claim_in`](Self::claim_in) and `complete_in` both run in it, and a rollback leaves no
    /// trace of the claim. Others that claim the key meanwhile are answered with `Contention`
    /// within [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT), as is who completes, renews or
    /// releases the claim outside of the transaction; the store remembers the key, so that most of
    /// them do not even ask the server. Keep such transactions short all the same.
    ///
    /// The connection is that of an open transaction: [`Transaction`](crate::Transaction) or
    /// `sqlx::MySqlTransaction`. Prefer the first: sqlx 0.9.0 hands a connection whose statement
    /// was dropped half-way back to the pool, where it keeps the transaction open, and its locks.
    ///
    /// A lock that another transaction holds is waited for as long here, and then the answer is
    /// `Contention`. Not so where a plain read waits, which is under SERIALIZABLE on MySQL, and for
    /// the INSERT of a fresh key on MySQL in a session that is not READ COMMITTED: a second. The
    /// session's settings are afterwards what they were. A transaction that was made REPEATABLE
    /// READ or SERIALIZABLE for itself in a session that is READ COMMITTED keeps others on MySQL
    /// from inserting next to its fresh key.
    ///
    /// After an error of the server roll the transaction back, also after 1205, which undoes the
    /// statement only, and repeat it as a whole, with the same key.
    /// [`Transactions`](crate::Transactions) does that. Under REPEATABLE READ, the servers'
    /// default, a duplicate may be told what was true when the transaction began to read; who
    /// acquires is always decided by the latest version.
    ///
    /// The store remembers which operations are used in transactions, and looks first for their
    /// keys: an insert that comes first would meet the lock of a transaction, where a look is
    /// answered at once.
    MySqlStore, BACKEND, transaction: &mut MySqlConnection,
    cancellation: "The transaction is in an unknown state: roll it back.",
    claim: "As for `claim`, and `Contention` after a deadlock or a lock that another transaction holds.",
    advance: "As for `advance`, and `Contention` after a deadlock or a lock that another transaction holds.",
    record: |store, key| Ok(store.record_session(transaction, key)),
    mark: |store, _source| Ok(store.session_in(transaction)),
}

impl MySqlStore {
    fn record_session<'t>(&'t self, connection: &'t mut MySqlConnection, key: &Key) -> Session<'t> {
        self.operations.estimator.always_look(key);
        self.session_in(connection)
    }

    fn session_in<'t>(&'t self, connection: &'t mut MySqlConnection) -> Session<'t> {
        Session::in_transaction(connection, &self.operations.counters)
    }
}
