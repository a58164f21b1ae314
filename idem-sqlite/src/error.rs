//! The meaning of the driver's and SQLite's errors for the caller.

pub(crate) use idem_core::backend::Access;
use std::error::Error as StdError;

use idem_core::backend::Meaning;
use idem_core::{Effect, Error, ErrorKind};
use sqlx::Error as SqlxError;

use crate::codes::{by_code, is_lock};
use crate::drivers::code;

/// Converts a driver error, which stays as the source.
pub(crate) fn classify(error: SqlxError, sent: Access) -> Error {
    sent.error(meaning_of(&error), error)
}

/// Returns the meaning of a driver error for a statement that writes.
pub(crate) fn meaning_of(error: &SqlxError) -> Meaning {
    match error {
        SqlxError::Database(_) => by_code(code(error).unwrap_or(-1)),
        SqlxError::Io(_) | SqlxError::WorkerCrashed => (
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the connection's thread is gone",
        ),
        SqlxError::PoolTimedOut => (
            ErrorKind::Unavailable,
            Effect::None,
            "no connection became free in time; raise the pool's size or its `acquire_timeout`",
        ),
        SqlxError::PoolClosed => (ErrorKind::Misconfigured, Effect::None, "the pool is closed"),
        SqlxError::Configuration(_) | SqlxError::InvalidArgument(_) => (
            ErrorKind::Misconfigured,
            Effect::None,
            "the URL or the options cannot be read; see the source",
        ),
        SqlxError::Encode(_) => (
            ErrorKind::InvalidInput,
            Effect::None,
            "a value cannot be stored",
        ),
        SqlxError::Protocol(_)
        | SqlxError::Decode(_)
        | SqlxError::ColumnDecode { .. }
        | SqlxError::ColumnIndexOutOfBounds { .. }
        | SqlxError::ColumnNotFound(_) => (
            ErrorKind::Corrupt,
            Effect::Unknown,
            "what is stored makes no sense",
        ),
        _ => (
            ErrorKind::Other,
            Effect::Unknown,
            "the driver failed; see the source",
        ),
    }
}

/// Returns whether to repeat the whole transaction: this error, of the store or of any
/// [driver](crate::CallerTransaction), or one of its sources, is
/// [`Contention`](ErrorKind::Contention) of a store, or says that the database was locked
/// (SQLITE_BUSY, SQLITE_LOCKED).
#[must_use]
pub fn is_transaction_retryable(error: &(dyn StdError + 'static)) -> bool {
    idem_sql::transactions::is_retryable(error, |error| code(error).map(is_lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contention_repeats_the_transaction() {
        let lost = Error::new(ErrorKind::Contention, Effect::None, "lost");
        assert!(is_transaction_retryable(&lost));
        assert!(!is_transaction_retryable(&Error::claim_lost()));
    }
}
