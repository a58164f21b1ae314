//! What an error of the driver or the server means for the caller.

use std::error::Error as StdError;

use idem_core::{Effect, Error, ErrorKind};
use sqlx::Error as SqlxError;
use sqlx::mysql::MySqlDatabaseError;

/// Whether the failed call could have changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing was sent yet, or only a read.
    Harmless,
    /// A statement that writes was sent.
    Write,
}

/// The driver's error as one of ours; the driver's is kept as the source.
pub(crate) fn classify(error: SqlxError, sent: Sent) -> Error {
    let (kind, effect, message) = match &error {
        SqlxError::Database(_) => {
            let (kind, effect, message) = by_number(number(&error).unwrap_or(0));
            (kind, effect, message.to_owned())
        }
        // rustls reports a certificate that it does not trust in this way.
        SqlxError::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => (
            ErrorKind::Misconfigured,
            Effect::Unknown,
            "the TLS connection failed; check `ssl-mode`, `ssl-ca` and the server's certificate"
                .to_owned(),
        ),
        SqlxError::Io(_) | SqlxError::WorkerCrashed => (
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the connection to the server was lost".to_owned(),
        ),
        SqlxError::PoolTimedOut => (
            ErrorKind::Unavailable,
            Effect::None,
            "no connection became free in time; raise the pool's size or its `acquire_timeout`"
                .to_owned(),
        ),
        SqlxError::PoolClosed => (
            ErrorKind::Misconfigured,
            Effect::None,
            "the pool is closed".to_owned(),
        ),
        SqlxError::Configuration(_) | SqlxError::Tls(_) | SqlxError::InvalidArgument(_) => (
            ErrorKind::Misconfigured,
            Effect::None,
            "the connection is not set up for this server; see the source".to_owned(),
        ),
        SqlxError::Encode(_) => (
            ErrorKind::InvalidInput,
            Effect::None,
            "a value cannot be sent".to_owned(),
        ),
        SqlxError::Protocol(_)
        | SqlxError::Decode(_)
        | SqlxError::ColumnDecode { .. }
        | SqlxError::ColumnIndexOutOfBounds { .. }
        | SqlxError::ColumnNotFound(_)
        | SqlxError::TypeNotFound { .. } => (
            ErrorKind::Corrupt,
            Effect::Unknown,
            "the server's answer makes no sense".to_owned(),
        ),
        _ => (
            ErrorKind::Other,
            Effect::Unknown,
            "the driver failed; see the source".to_owned(),
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

/// What an error number means: kind, effect, and what to do. An error in a statement rolls the statement back, so
/// most have no effect; where the server goes down or a commit fails, it may have.
///
/// Numbers: <https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html> and
/// <https://mariadb.com/kb/en/mariadb-error-code-reference/>.
fn by_number(number: u16) -> (ErrorKind, Effect, &'static str) {
    use ErrorKind::{Contention, Corrupt, Misconfigured, Other, Unavailable};
    match number {
        DEADLOCK => (
            Contention,
            Effect::None,
            "the server broke a deadlock, or a Galera node refused to certify (1213); repeat the whole \
             transaction",
        ),
        LOCK_WAIT | NO_WAIT => (
            Contention,
            Effect::None,
            "another transaction that is still open holds a lock (1205, 3572); ask again when it has ended, in a \
             transaction with the whole of it",
        ),
        RECORD_CHANGED => (
            Contention,
            Effect::None,
            "a row changed after the transaction's snapshot (1020, innodb_snapshot_isolation); repeat the \
             whole transaction",
        ),
        1062 | 1412 | 1614 | 1615 => (
            Contention,
            Effect::None,
            "a concurrent change got in the way (1062, 1412, 1614, 1615); ask again",
        ),
        1040 | 1203 | 1226 | 1461 => (
            Unavailable,
            Effect::None,
            "the server takes no more connections or statements (1040, 1203, 1226, 1461); raise its limit or \
             make pools smaller",
        ),
        1047 => (
            Unavailable,
            Effect::None,
            "the Galera node is not part of the primary component (1047); another node, or wait until it has \
             joined",
        ),
        1290 | 1792 | 1836 => (
            Unavailable,
            Effect::None,
            "the server only reads (1290, 1792, 1836): a replica, or the transaction is READ ONLY; connect to \
             the primary",
        ),
        1969 | 3024 => (
            Unavailable,
            Effect::None,
            "the server ended the statement for its time limit (1969 max_statement_time, 3024 \
             max_execution_time)",
        ),
        1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1317 | 1927 | 3169 | 4031 => (
            Unavailable,
            Effect::Unknown,
            "the server shuts down, or it or a person ended the connection or the statement (1053, 1152, 1317, \
             1927, 3169, 4031)",
        ),
        1180 | 1181 => (
            Unavailable,
            Effect::Unknown,
            "the server failed to commit or to roll back (1180, 1181)",
        ),
        3 | 1021 | 1026 | 1030 | 1037 | 1038 | 1041 | 1114 | 1206 => (
            Unavailable,
            Effect::Unknown,
            "the server is out of a resource: disk, memory or locks (1021, 1030, 1037, 1041, 1114, 1206)",
        ),
        1049 | 1054 | 1146 => (
            Misconfigured,
            Effect::None,
            "the table is missing or of another version (1049, 1054, 1146); run `migrate()` or the printed \
             schema, and check database and table names",
        ),
        1046 => (
            Misconfigured,
            Effect::None,
            "no database is chosen (1046); name one in the URL or with `Config::with_database`",
        ),
        1044 | 1142 | 1143 | 1227 => (
            Misconfigured,
            Effect::None,
            "the user lacks a privilege (1044, 1142, 1143, 1227); grant SELECT, INSERT, UPDATE and DELETE on the \
             table",
        ),
        1045 | 1129 | 1130 | 1251 | 1698 | 1862 | 2059 | 2061 | 3118 | 3159 | 4151 => (
            Misconfigured,
            Effect::None,
            "the server refused the user, the password, the host or the connection without TLS (1045, 1129, \
             1130, 1251, 1698, 3159); MySQL 8 and later need the feature `tls`",
        ),
        1153 => (
            Misconfigured,
            Effect::None,
            "the statement is larger than max_allowed_packet (1153); raise it, or lower \
             `Limits::max_result_bytes`",
        ),
        1193 | 1231 => (
            Misconfigured,
            Effect::None,
            "the server does not know a setting or its value (1193, 1231); `wsrep_sync_wait` is for Galera nodes",
        ),
        1243 => (
            Misconfigured,
            Effect::None,
            "a prepared statement is gone (1243): a pooler changed the server under the connection and does not \
             follow prepared statements",
        ),
        1286 | 1665 => (
            Misconfigured,
            Effect::None,
            "the server cannot write to InnoDB as it is set up (1286, 1665); READ COMMITTED needs binlog_format \
             ROW or MIXED",
        ),
        1064 | 1149 | 1295 => (
            Misconfigured,
            Effect::None,
            "the server does not know a statement (1064, 1149, 1295); MySQL 8.0 or MariaDB 10.6 and later is needed, \
             and `Returning::Always` needs MariaDB",
        ),
        126 | 127 | 145 | 1033 | 1034 | 1194 | 1712 | 1877 => (
            Corrupt,
            Effect::Unknown,
            "the server reports a corrupt table or index (126, 145, 1034, 1194, 1712)",
        ),
        _ => (
            Other,
            Effect::Unknown,
            "the server refused the statement; see the source for its number",
        ),
    }
}

/// `ER_LOCK_DEADLOCK`.
const DEADLOCK: u16 = 1213;
/// `ER_LOCK_WAIT_TIMEOUT`.
const LOCK_WAIT: u16 = 1205;
/// `ER_LOCK_NOWAIT`.
const NO_WAIT: u16 = 3572;
/// `ER_BAD_NULL_ERROR`.
const NOT_NULL: u16 = 1048;
/// `ER_CHECKREAD`.
const RECORD_CHANGED: u16 = 1020;

/// A race that a statement has lost, after which the server has undone it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostRace {
    Deadlock,
    /// A lock was not free in time, or at once where none was given.
    LockWait,
    /// A lock was not free, and NOWAIT was set; a transaction is as it was.
    NoWait,
    Other,
}

impl LostRace {
    /// Whether somebody holds a lock.
    pub(crate) fn is_lock(self) -> bool {
        matches!(self, Self::LockWait | Self::NoWait)
    }
}

/// Which race the statement has lost, if it has.
pub(crate) fn lost_race(error: &SqlxError) -> Option<LostRace> {
    match number(error)? {
        DEADLOCK | RECORD_CHANGED => Some(LostRace::Deadlock),
        LOCK_WAIT => Some(LostRace::LockWait),
        NO_WAIT => Some(LostRace::NoWait),
        number => (by_number(number).0 == ErrorKind::Contention).then_some(LostRace::Other),
    }
}

fn number(error: &SqlxError) -> Option<u16> {
    let database = error.as_database_error()?;
    Some(database.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

fn driver(error: &Error) -> Option<&SqlxError> {
    StdError::source(error)?.downcast_ref()
}

/// Whether a statement has met a lock that somebody holds.
pub(crate) fn is_locked(error: &Error) -> bool {
    let race = driver(error).and_then(lost_race);
    race.is_some_and(LostRace::is_lock)
}

/// Whether a column refused NULL.
pub(crate) fn is_null_refused(error: &Error) -> bool {
    driver(error).and_then(number) == Some(NOT_NULL)
}

/// Whether this error, or one that it comes from, is a lost race, after which the whole transaction is to be rolled back
/// and repeated: a deadlock or a failed certification (1213), a lock that another transaction holds (1205, 3572), a row that
/// changed under a snapshot (1020), and rarer ones (1062 on a record, 1412, 1614, 1615).
#[must_use]
pub fn is_transaction_retryable(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<SqlxError>() {
            return lost_race(error).is_some();
        }
        if let Some(error) = error.downcast_ref::<Error>()
            && error.kind() == ErrorKind::Contention
        {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_classified() {
        use Effect::{None, Unknown};
        use ErrorKind::{Contention, Corrupt, Misconfigured, Other, Unavailable};
        for (number, kind, effect) in [
            (1213, Contention, None),
            (1205, Contention, None),
            (1020, Contention, None),
            (1062, Contention, None),
            (3572, Contention, None),
            (1040, Unavailable, None),
            (1047, Unavailable, None),
            (1290, Unavailable, None),
            (1836, Unavailable, None),
            (3024, Unavailable, None),
            (1053, Unavailable, Unknown),
            (1160, Unavailable, Unknown),
            (1317, Unavailable, Unknown),
            (1927, Unavailable, Unknown),
            (4031, Unavailable, Unknown),
            (1180, Unavailable, Unknown),
            (1114, Unavailable, Unknown),
            (1146, Misconfigured, None),
            (1054, Misconfigured, None),
            (1046, Misconfigured, None),
            (1142, Misconfigured, None),
            (1045, Misconfigured, None),
            (1153, Misconfigured, None),
            (1193, Misconfigured, None),
            (1243, Misconfigured, None),
            (1665, Misconfigured, None),
            (1064, Misconfigured, None),
            (1194, Corrupt, Unknown),
            (0, Other, Unknown),
            (1366, Other, Unknown),
            (u16::MAX, Other, Unknown),
        ] {
            let (found, found_effect, message) = by_number(number);
            assert_eq!((found, found_effect), (kind, effect), "{number}");
            assert!(!message.is_empty());
        }
    }

    #[test]
    fn a_lost_connection_may_have_had_an_effect_unless_it_was_a_read() {
        let lost = || SqlxError::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(classify(lost(), Sent::Write).effect(), Effect::Unknown);
        assert_eq!(classify(lost(), Sent::Harmless).effect(), Effect::None);
        assert!(classify(lost(), Sent::Write).is_retryable());
        assert!(classify(lost(), Sent::Write).source().is_some());
        assert_eq!(lost_race(&lost()), None);
    }
}
