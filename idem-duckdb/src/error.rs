//! The meaning of the driver's and DuckDB's errors for the caller.

pub(crate) use idem_core::backend::Access;
use std::error::Error as StdError;

use duckdb::Error as DuckDbError;
use idem_core::{Effect, Error, ErrorKind};

use crate::codes::{by_text, is_conflict};

/// Converts a driver error, which stays as the source.
pub(crate) fn classify(error: DuckDbError, sent: Access) -> Error {
    let meaning = match &error {
        DuckDbError::DuckDBFailure(_, Some(text)) => by_text(text),
        DuckDbError::NulError(_)
        | DuckDbError::InvalidPath(_)
        | DuckDbError::ToSqlConversionFailure(_) => (
            ErrorKind::InvalidInput,
            Effect::None,
            "a value cannot be stored",
        ),
        DuckDbError::FromSqlConversionFailure(..)
        | DuckDbError::IntegralValueOutOfRange(..)
        | DuckDbError::UnsignedIntegralValueOutOfRange(..)
        | DuckDbError::Utf8Error(_)
        | DuckDbError::InvalidColumnIndex(_)
        | DuckDbError::InvalidColumnType(..) => (
            ErrorKind::Corrupt,
            Effect::Unknown,
            "what is stored makes no sense",
        ),
        _ => (
            ErrorKind::Other,
            Effect::Unknown,
            "the driver failed; see the source",
        ),
    };
    sent.error(meaning, error)
}

/// Returns the error of work whose thread is gone: it panicked, or the runtime has shut down.
pub(crate) fn thread_is_gone(error: tokio::task::JoinError, sent: Access) -> Error {
    let meaning = (
        ErrorKind::Unavailable,
        Effect::Unknown,
        "the thread of the connection is gone",
    );
    sent.error(meaning, error)
}

/// Returns whether to repeat the whole transaction: this error, or one of its sources, is
/// [`Contention`](ErrorKind::Contention) of a store, or says that a concurrent transaction has
/// written the same row or created the same table.
#[must_use]
pub fn is_transaction_retryable(error: &(dyn StdError + 'static)) -> bool {
    idem_sql::transactions::is_retryable(error, |error| {
        match error.downcast_ref::<DuckDbError>()? {
            DuckDbError::DuckDBFailure(_, Some(text)) => Some(is_conflict(text)),
            _ => Some(false),
        }
    })
}
