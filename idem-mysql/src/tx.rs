//! Operations in a caller's transaction.

use std::time::Duration;

use idem_core::{
    Advance, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Error, Failure, Key, Response, Result,
};
use sqlx::mysql::MySqlConnection;

use crate::session::Session;
use crate::store::{BACKEND, MySqlStore};

/// The record and the caller's own rows commit together: the only true exactly-once there is.
///
/// Either the claim is taken outside, and only [`complete_in`](Self::complete_in) runs in the transaction that
/// writes the business rows: others see the key in flight while the work runs. Or
/// [`claim_in`](Self::claim_in) and `complete_in` both run in it, and a rollback leaves no trace of the claim. Others that
/// claim the key meanwhile are answered with `Contention` within [`MAX_LOCK_WAIT`](idem_core::backend::MAX_LOCK_WAIT), as is who
/// completes, renews or releases the claim outside of the transaction; the store remembers the key, so that most of them do
/// not even ask the server. Keep such transactions short all the same.
///
/// The connection is that of an open transaction: [`Transaction`](crate::Transaction) or `sqlx::MySqlTransaction`. Prefer the first:
/// sqlx 0.9.0 hands a connection whose statement was dropped half-way back to the pool, where it keeps the
/// transaction open, and its locks.
///
/// A lock that another transaction holds is waited for as long here, and then the answer is `Contention`. Not so where a plain
/// read waits, which is under SERIALIZABLE on MySQL, and for the INSERT of a fresh key on MySQL in a session that is not READ
/// COMMITTED: a second. The session's settings are afterwards what they were. A transaction that was made REPEATABLE READ or
/// SERIALIZABLE for itself in a session that is READ COMMITTED keeps others on MySQL from inserting next to its fresh key.
///
/// After an error of the server roll the transaction back, also after 1205, which undoes the statement only,
/// and repeat it as a whole, with the same key. [`Transactions`](crate::Transactions) does that. Under REPEATABLE READ, the servers' default,
/// a duplicate may be told what was true when the transaction began to read; who acquires is always decided by the
/// latest version.
///
/// The store remembers which operations are used in transactions, and looks first for their keys: an insert that comes first
/// would meet the lock of a transaction, where a look is answered at once.
impl MySqlStore {
    /// [`claim`](idem_core::IdempotencyStore::claim) in the caller's transaction.
    ///
    /// # Errors
    ///
    /// As for `claim`, and `Contention` after a deadlock or a lock that another transaction holds.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn claim_in(
        &self,
        transaction: &mut MySqlConnection,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        self.operations.estimator.always_look(request.key());
        self.operations
            .claim(&mut self.session_in(transaction), request)
            .await
            .map_err(|error| error.at(BACKEND, "claim_in"))
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
    /// The transaction is in an unknown state: roll it back.
    pub async fn complete_in(
        &self,
        transaction: &mut MySqlConnection,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.operations.estimator.always_look(claim.key());
        let at = |error: Error| error.at(BACKEND, "complete_in");
        let sealing = self.operations.response(response, retention).map_err(at)?;
        self.operations
            .seal(&mut self.session_in(transaction), claim, &sealing)
            .await
            .map_err(at)
    }

    /// [`fail`](idem_core::IdempotencyStore::fail) in the caller's transaction.
    ///
    /// # Errors
    ///
    /// As for `fail`.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn fail_in(
        &self,
        transaction: &mut MySqlConnection,
        claim: &Claim,
        failure: &Failure,
        retention: Duration,
    ) -> Result<()> {
        self.operations.estimator.always_look(claim.key());
        let at = |error: Error| error.at(BACKEND, "fail_in");
        let sealing = self.operations.failure(failure, retention).map_err(at)?;
        self.operations
            .seal(&mut self.session_in(transaction), claim, &sealing)
            .await
            .map_err(at)
    }

    /// [`checkpoint`](idem_core::CheckpointStore::checkpoint) in the caller's transaction: the recovery point and the rows
    /// that it stands for commit together. When it answers `ClaimLost`, roll back: somebody else does the work.
    ///
    /// # Errors
    ///
    /// As for `checkpoint`.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn checkpoint_in(
        &self,
        transaction: &mut MySqlConnection,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        self.operations.estimator.always_look(claim.key());
        self.operations
            .checkpoint(&mut self.session_in(transaction), claim, checkpoint)
            .await
            .map_err(|error| error.at(BACKEND, "checkpoint_in"))
    }

    /// [`advance`](idem_core::WatermarkStore::advance) in the caller's transaction: the mark and the rows that were written
    /// for the event commit together, and a rollback leaves the mark where it was. Others that advance the same source
    /// meanwhile are answered with `Contention`.
    ///
    /// # Errors
    ///
    /// As for `advance`, and `Contention` after a deadlock or a lock that another transaction holds.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: roll it back.
    pub async fn advance_in(
        &self,
        transaction: &mut MySqlConnection,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        let mut session = self.session_in(transaction);
        self.operations
            .advance(&mut session, source, version, retention)
            .await
            .map_err(|error| error.at(BACKEND, "advance_in"))
    }

    fn session_in<'t>(&'t self, connection: &'t mut MySqlConnection) -> Session<'t> {
        Session::in_transaction(connection, &self.operations.counters)
    }
}
