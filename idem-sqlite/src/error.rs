//! What an error of the driver or of SQLite means for the caller.

use std::error::Error as StdError;

use idem_core::{Effect, Error, ErrorKind};
use sqlx::Error as SqlxError;

/// Whether the failed call could have changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing was begun yet, or only a read.
    Harmless,
    /// A statement that writes was begun.
    Write,
}

/// The driver's error as one of ours; the driver's is kept as the source.
pub(crate) fn classify(error: SqlxError, sent: Sent) -> Error {
    let (kind, effect, message) = match &error {
        SqlxError::Database(database) => by_code(code(&**database)),
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
    };
    let effect = match sent {
        Sent::Harmless => Effect::None,
        Sent::Write => effect,
    };
    Error::new(kind, effect, message).with_source(error)
}

/// An answer that cannot be read.
pub(crate) fn decode(error: SqlxError) -> Error {
    classify(error, Sent::Write)
}

/// SQLite's extended result code; 1 (SQLITE_ERROR) where there is none.
fn code(database: &(dyn sqlx::error::DatabaseError + 'static)) -> i32 {
    database
        .code()
        .and_then(|code| code.parse().ok())
        .unwrap_or(1)
}

/// What a result code means: kind, effect, and what to do. The low byte is the primary code. An error in a
/// statement rolls the statement back; where the disk fails, the commit may have come first.
///
/// Codes: <https://www.sqlite.org/rescode.html>.
fn by_code(code: i32) -> (ErrorKind, Effect, &'static str) {
    use ErrorKind::{Contention, Corrupt, Misconfigured, Other, Unavailable};
    match code & 0xff {
        // BUSY, LOCKED
        5 | 6 => (
            Contention,
            Effect::None,
            "the database is locked (SQLITE_BUSY, SQLITE_LOCKED); ask again, begin writing transactions with \
             BEGIN IMMEDIATE, or raise the busy time-out",
        ),
        // IOERR
        10 => (
            Unavailable,
            Effect::Unknown,
            "the disk failed (SQLITE_IOERR)",
        ),
        // NOMEM, FULL, INTERRUPT
        7 | 9 | 13 => (
            Unavailable,
            Effect::None,
            "out of memory or disk, or interrupted (SQLITE_NOMEM, SQLITE_FULL, SQLITE_INTERRUPT)",
        ),
        // CORRUPT, NOTADB, FORMAT
        11 | 24 | 26 => (
            Corrupt,
            Effect::Unknown,
            "the file is damaged or no SQLite database (SQLITE_CORRUPT, SQLITE_NOTADB)",
        ),
        // PERM, READONLY, CANTOPEN, AUTH
        3 | 8 | 14 | 23 => (
            Misconfigured,
            Effect::None,
            "the file cannot be opened or written (SQLITE_PERM, SQLITE_READONLY, SQLITE_CANTOPEN); check the \
             path, the folder's permissions and that its folder exists",
        ),
        // ERROR: with valid statements, a missing table or column
        1 => (
            Misconfigured,
            Effect::None,
            "the table is missing or of another version; run `migrate()` or the printed schema",
        ),
        // TOOBIG
        18 => (
            ErrorKind::InvalidInput,
            Effect::None,
            "a value is larger than SQLite holds (SQLITE_TOOBIG)",
        ),
        _ => (
            Other,
            Effect::Unknown,
            "SQLite refused the statement; see the source for its code",
        ),
    }
}

/// Whether this error, or one that it comes from, says that the database was locked (SQLITE_BUSY, SQLITE_LOCKED),
/// after which the whole transaction is to be repeated.
#[must_use]
pub fn is_transaction_retryable(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(SqlxError::Database(database)) = error.downcast_ref::<SqlxError>() {
            return matches!(code(&**database) & 0xff, 5 | 6);
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_classified() {
        use Effect::{None, Unknown};
        use ErrorKind::{Contention, Corrupt, InvalidInput, Misconfigured, Other, Unavailable};
        for (code, kind, effect) in [
            (5, Contention, None),
            (517, Contention, None),
            (261, Contention, None),
            (6, Contention, None),
            (10, Unavailable, Unknown),
            (1034, Unavailable, Unknown),
            (13, Unavailable, None),
            (11, Corrupt, Unknown),
            (26, Corrupt, Unknown),
            (8, Misconfigured, None),
            (14, Misconfigured, None),
            (1, Misconfigured, None),
            (18, InvalidInput, None),
            (19, Other, Unknown),
            (2067, Other, Unknown),
        ] {
            let (found, found_effect, message) = by_code(code);
            assert_eq!((found, found_effect), (kind, effect), "{code}");
            assert!(!message.is_empty());
        }
    }
}
