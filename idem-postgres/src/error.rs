//! The meaning of the driver's and the server's errors for the caller.

pub(crate) use idem_core::backend::Access;
use std::error::Error as StdError;

use idem_core::Error;
use idem_core::backend::Meaning;
use idem_sql::sqlx::driver_meaning;
use sqlx::Error as SqlxError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::drivers;
use crate::sqlstate::{Answer, Cure, LOCK_NOT_AVAILABLE, STANDBY, by_code, meaning};

/// Converts a driver error, which stays as the source.
pub(crate) fn classify(error: SqlxError, sent: Access) -> Error {
    sent.error(meaning_of(&error).0, error)
}

/// Converts the error of an answer that cannot be read.
pub(crate) fn decode(error: SqlxError) -> Error {
    classify(error, Access::Write)
}

/// Returns the meaning of a driver error for a statement that writes, and how the store repairs it.
pub(crate) fn meaning_of(error: &SqlxError) -> (Meaning, Cure) {
    let meaning = match error {
        SqlxError::Database(_) => {
            return drivers::answer(error).map_or_else(|| (by_code(""), Cure::Tell), meaning);
        }
        error => driver_meaning(
            error,
            "the TLS connection failed; check `sslmode`, `sslrootcert` and the server's certificate",
        ),
    };
    (meaning, Cure::Tell)
}

/// Returns how the store repairs this error by itself.
pub(crate) fn cure(error: &SqlxError) -> Cure {
    meaning_of(error).1
}

/// Returns whether the server answered with an error and stays connected: after FATAL and PANIC it
/// closes the connection.
pub(crate) fn is_answer(error: &SqlxError) -> bool {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| error.severity() == PgSeverity::Error)
}

/// Returns whether the server's wait for a lock timed out: an open transaction holds the key.
pub(crate) fn is_locked(error: &Error) -> bool {
    code(error).as_deref() == Some(LOCK_NOT_AVAILABLE)
}

/// Returns whether the server closed the connection because it was idle.
pub(crate) fn was_idle(error: &Error) -> bool {
    code(error).as_deref() == Some("57P05")
}

/// Returns whether a standby got a read that decides; nothing was read then.
pub(crate) fn is_of_standby(error: &Error) -> bool {
    answered(error, |answer| answer.message.contains(STANDBY)).unwrap_or_default()
}

/// Returns the SQLSTATE of the error or its sources.
fn code(error: &(dyn StdError + 'static)) -> Option<String> {
    answered(error, |answer| answer.code.to_owned())
}

/// Reads the server's answer in the error or its sources.
fn answered<T>(error: &(dyn StdError + 'static), read: impl Fn(Answer<'_>) -> T) -> Option<T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(answer) = drivers::answer(error) {
            return Some(read(answer));
        }
        next = error.source();
    }
    None
}

/// Returns whether to repeat the whole transaction. This error, of the store or of any
/// [driver](crate::CallerTransaction), or one of its sources, is a serialization failure (SQLSTATE 40001), a deadlock (40P01), a lock that was not free in time
/// (55P03), or [`Contention`](idem_core::ErrorKind::Contention) of a store.
#[must_use]
pub fn is_transaction_retryable(error: &(dyn StdError + 'static)) -> bool {
    idem_sql::transactions::is_retryable(error, |error| {
        let code = drivers::answer(error)?.code;
        Some(["40001", "40P01", LOCK_NOT_AVAILABLE].contains(&code))
    })
}
