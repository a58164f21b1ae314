//! The meaning of the driver's and the server's errors for the caller.

pub(crate) use idem_core::backend::Access;
use std::error::Error as StdError;

use idem_core::backend::Meaning;
use idem_core::{Effect, Error, ErrorKind};
use idem_sql::sqlx::driver_meaning;
use sqlx::Error as SqlxError;

use crate::codes::{DEADLOCK, LOCK_WAIT, NO_WAIT, NOT_NULL, RECORD_CHANGED, REFUSED, meaning};
use crate::drivers::number;

/// Converts a driver error, which stays as the source.
pub(crate) fn classify(error: SqlxError, sent: Access) -> Error {
    sent.error(meaning_of(&error), error)
}

/// Returns the meaning of a driver error for a statement that writes.
pub(crate) fn meaning_of(error: &SqlxError) -> Meaning {
    match error {
        SqlxError::Database(_) => meaning(number(error).unwrap_or(0)),
        error => driver_meaning(
            error,
            "the TLS connection failed; check `ssl-mode`, `ssl-ca` and the server's certificate",
        ),
    }
}

/// Converts the error of an answer that cannot be read.
pub(crate) fn decode(error: SqlxError) -> Error {
    classify(error, Access::Write)
}

/// Returns whether the server only reads, as an old primary does after a failover: another
/// connection may lead to the new one.
pub(crate) fn only_reads(error: &SqlxError) -> bool {
    matches!(number(error), Some(1290 | 1836 | 1874))
}

/// A race that a statement has lost; the server has undone the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostRace {
    Deadlock,
    /// A lock was not free within the wait, or at once where no wait was set.
    LockWait,
    /// A lock was not free, and NOWAIT was set; a transaction is unchanged.
    NoWait,
    /// Group replication rolled back a commit that it had given to the group.
    Refused,
    Other,
}

impl LostRace {
    /// Returns whether the race was about a lock.
    pub(crate) fn is_lock(self) -> bool {
        matches!(self, Self::LockWait | Self::NoWait)
    }
}

/// Returns which race the statement has lost, if any.
pub(crate) fn lost_race(error: &(dyn StdError + 'static)) -> Option<LostRace> {
    match number(error)? {
        DEADLOCK | RECORD_CHANGED => Some(LostRace::Deadlock),
        LOCK_WAIT => Some(LostRace::LockWait),
        NO_WAIT => Some(LostRace::NoWait),
        REFUSED => Some(LostRace::Refused),
        number => (meaning(number).0 == ErrorKind::Contention).then_some(LostRace::Other),
    }
}

/// Returns the same for an error of the store.
pub(crate) fn lost_race_of(error: &Error) -> Option<LostRace> {
    lost_race(StdError::source(error)?)
}

/// Returns whether a statement has met another transaction's lock.
pub(crate) fn is_locked(error: &Error) -> bool {
    lost_race_of(error).is_some_and(LostRace::is_lock)
}

/// Returns whether a column refused NULL.
pub(crate) fn is_null_refused(error: &Error) -> bool {
    StdError::source(error).and_then(number) == Some(NOT_NULL)
}

/// Returns whether to roll the whole transaction back and repeat it. This error, of the store or of
/// any [driver](crate::CallerTransaction), or one of its sources, is a lost race: a deadlock or a
/// failed certification (1213), a lock of another transaction (1205, 3572), a row that changed under
/// a snapshot (1020), and rarer ones (1062 on a record, 1412, 1614, 1615).
///
/// An error of the commit is no reason on a Galera node (1213) or a member of a replication group
/// (3101): the others may have the commit. Claim again before you repeat such a transaction, as after an
/// answer that was lost. [`Transaction::commit`](crate::Transaction::commit) says so by the effect.
#[must_use]
pub fn is_transaction_retryable(error: &(dyn StdError + 'static)) -> bool {
    if error
        .downcast_ref()
        .is_some_and(|error: &Error| error.effect() == Effect::Unknown)
    {
        return false;
    }
    idem_sql::transactions::is_retryable(error, |error| {
        number(error)?;
        Some(lost_race(error).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_no_lost_race() {
        let lost = SqlxError::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(lost_race(&lost), None);
    }
}
