//! Decides which caller may send a statement that could meet a key's lock, and remembers the keys
//! whose lock was met.

use idem_core::backend::{LockedKeys, TryTurn, Turn};
use idem_core::{Key, Result};
use idem_sql::executor::BoundStatement;

use crate::error::is_locked;
use crate::operations::Operations;
use crate::session::Session;

/// The right to send one statement that may meet the lock of a key.
#[derive(Debug)]
pub(crate) enum Permit<'o> {
    /// No other caller in this process sends one meanwhile.
    Turn(Turn),
    /// In a caller's transaction, which may hold the lock itself.
    Transaction(&'o LockedKeys),
}

impl Permit<'_> {
    /// Remembers a lock that the statement has met.
    pub(crate) fn settle<T>(self, key: &Key, result: Result<T>) -> Result<T> {
        if result.as_ref().is_err_and(is_locked) {
            match self {
                Self::Turn(turn) => turn.found_locked(),
                Self::Transaction(locked) => locked.found_locked(key),
            }
        }
        result
    }
}

impl Operations {
    /// Returns the right to send a statement; `None` after the turn of another caller of this
    /// process: read again.
    ///
    /// # Errors
    ///
    /// `Contention` where the key is known to be locked. For a transaction only the server refuses,
    /// and the statement then does not wait.
    pub(crate) async fn permit<'o>(
        &self,
        locked: &'o LockedKeys,
        session: &mut Session<'_>,
        key: &Key,
    ) -> Result<Option<Permit<'o>>> {
        if session.is_transaction() {
            if locked.is_locked(key) {
                session.set_no_retry();
            }
            return Ok(Some(Permit::Transaction(locked)));
        }
        match locked.try_turn(key) {
            TryTurn::Turn(turn) => Ok(Some(Permit::Turn(turn))),
            TryTurn::Locked(error) => Err(session.doubted(error)),
            TryTurn::Busy => {
                session.park();
                let turn = locked.turn(key, session.remaining()).await;
                let turn = turn.map_err(|error| session.doubted(error))?;
                Ok(turn.map(Permit::Turn))
            }
        }
    }

    /// Changes a record, whose row may be locked; returns how many rows the condition has met.
    pub(crate) async fn write_locked(
        &self,
        session: &mut Session<'_>,
        key: &Key,
        statement: &BoundStatement<'_>,
    ) -> Result<u64> {
        loop {
            if let Some(permit) = self.permit(&self.locked, session, key).await? {
                let done = session.write(statement).await;
                return permit.settle(key, done);
            }
        }
    }
}
