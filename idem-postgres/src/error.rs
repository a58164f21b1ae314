//! What an error of the driver or the server means for the caller.

use std::error::Error as StdError;

use idem_core::{Effect, Error, ErrorKind};
use sqlx::Error as SqlxError;

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
        SqlxError::Database(database) => {
            let code = database.code();
            let (kind, effect, message) = by_sqlstate(code.as_deref().unwrap_or_default());
            (kind, effect, message.to_owned())
        }
        // rustls reports a certificate that it does not trust in this way.
        SqlxError::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => (
            ErrorKind::Misconfigured,
            Effect::Unknown,
            "the TLS connection failed; check `sslmode`, `sslrootcert` and the server's certificate"
                .to_owned(),
        ),
        error if is_lost(error) => (
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

/// sqlx 0.9.0 takes the end of a connection for a byte, 0x00, where the server says whether it speaks TLS: one that
/// is shutting down, or a proxy in front of none. No server answers that byte.
/// <https://github.com/transact-rs/sqlx/issues/4395>
fn is_lost(error: &SqlxError) -> bool {
    match error {
        SqlxError::Io(_) | SqlxError::WorkerCrashed => true,
        SqlxError::Protocol(told) => told.starts_with("unexpected response from SSLRequest: 0x00"),
        _ => false,
    }
}

/// An answer that cannot be read.
pub(crate) fn decode(error: SqlxError) -> Error {
    classify(error, Sent::Write)
}

/// What a SQLSTATE means: kind, effect, and what to do. An error in a statement rolls it back, so most have no
/// effect; where the server goes down, the commit may have come first.
///
/// Codes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn by_sqlstate(code: &str) -> (ErrorKind, Effect, &'static str) {
    use ErrorKind::{Contention, Corrupt, Misconfigured, Other, Unavailable};
    match code {
        "40001" => (
            Contention,
            Effect::None,
            "a concurrent transaction got in the way (40001); repeat the whole transaction",
        ),
        "40P01" => (
            Contention,
            Effect::None,
            "the server broke a deadlock (40P01); repeat the whole transaction",
        ),
        "55P03" => (
            Contention,
            Effect::None,
            "a lock was not free in time (55P03, lock_timeout)",
        ),
        "57014" => (
            Unavailable,
            Effect::None,
            "the server cancelled the statement (57014, statement_timeout or a person)",
        ),
        "40003" => (
            Unavailable,
            Effect::Unknown,
            "the server does not know whether the statement completed (40003)",
        ),
        "57P01" | "57P02" => (
            Unavailable,
            Effect::Unknown,
            "the server is shutting down or has crashed (57P01, 57P02)",
        ),
        "57P03" => (
            Unavailable,
            Effect::None,
            "the server is starting up (57P03)",
        ),
        "25006" => (
            Unavailable,
            Effect::None,
            "the server only reads (25006): a standby, or default_transaction_read_only is on; connect \
             to the primary",
        ),
        "42P01" | "3F000" | "42703" | "42P10" => (
            Misconfigured,
            Effect::None,
            "the table is missing or of another version; run `migrate()` or the printed schema, and \
             check schema and table names",
        ),
        "42501" => (
            Misconfigured,
            Effect::None,
            "the role lacks a privilege (42501); grant SELECT, INSERT, UPDATE and DELETE on the table",
        ),
        "26000" | "42P05" | "08P01" => (
            Misconfigured,
            Effect::None,
            "prepared statements are mixed up (26000, 42P05, 08P01): a pooler in transaction mode; use \
             `StatementMode::Unprepared`, or PgBouncer 1.21 with max_prepared_statements",
        ),
        "22021" | "22P05" => (
            Misconfigured,
            Effect::None,
            "the database cannot hold these characters (22021, 22P05); its encoding has to be UTF8",
        ),
        "25P02" => (
            Other,
            Effect::None,
            "the transaction has failed before (25P02); roll it back and repeat it as a whole",
        ),
        _ => match code.get(..2).unwrap_or_default() {
            "08" => (
                Unavailable,
                Effect::Unknown,
                "the connection to the server was lost (class 08)",
            ),
            "53" => (
                Unavailable,
                Effect::None,
                "the server is out of a resource (class 53): connections, memory or disk",
            ),
            "58" => (
                Unavailable,
                Effect::Unknown,
                "the server's operating system failed it (class 58)",
            ),
            "28" | "3D" => (
                Misconfigured,
                Effect::None,
                "the server refused the role, the password or the database (class 28, 3D)",
            ),
            "XX" => (
                Corrupt,
                Effect::Unknown,
                "the server reports an internal error or corruption (class XX)",
            ),
            _ => (
                Other,
                Effect::Unknown,
                "the server refused the statement; see the source for its code",
            ),
        },
    }
}

/// Whether this error, or one that it comes from, is a serialization failure or a deadlock, after which the
/// whole transaction is to be repeated (SQLSTATE 40001, 40P01).
#[must_use]
pub fn is_transaction_retryable(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(SqlxError::Database(database)) = error.downcast_ref::<SqlxError>() {
            return matches!(database.code().as_deref(), Some("40001" | "40P01"));
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
        use ErrorKind::{Contention, Corrupt, Misconfigured, Other, Unavailable};
        for (code, kind, effect) in [
            ("40001", Contention, None),
            ("40P01", Contention, None),
            ("55P03", Contention, None),
            ("57014", Unavailable, None),
            ("40003", Unavailable, Unknown),
            ("57P01", Unavailable, Unknown),
            ("57P02", Unavailable, Unknown),
            ("57P03", Unavailable, None),
            ("08006", Unavailable, Unknown),
            ("08P01", Misconfigured, None),
            ("53300", Unavailable, None),
            ("53100", Unavailable, None),
            ("58030", Unavailable, Unknown),
            ("25006", Unavailable, None),
            ("42P01", Misconfigured, None),
            ("3F000", Misconfigured, None),
            ("42501", Misconfigured, None),
            ("28P01", Misconfigured, None),
            ("3D000", Misconfigured, None),
            ("26000", Misconfigured, None),
            ("22021", Misconfigured, None),
            ("25P02", Other, None),
            ("XX001", Corrupt, Unknown),
            ("23505", Other, Unknown),
            ("", Other, Unknown),
            ("é", Other, Unknown),
        ] {
            let (found, found_effect, message) = by_sqlstate(code);
            assert_eq!((found, found_effect), (kind, effect), "{code}");
            assert!(!message.is_empty());
        }
    }

    #[test]
    fn a_connection_that_ended_at_the_question_for_tls_is_lost() {
        let answered = |byte: &str| {
            let told = format!("unexpected response from SSLRequest: {byte} (tls.rs:95)");
            classify(SqlxError::Protocol(told), Sent::Harmless).kind()
        };
        assert_eq!(answered("0x00"), ErrorKind::Unavailable);
        assert_eq!(answered("0x48"), ErrorKind::Corrupt, "a server of HTTP");
    }

    #[test]
    fn a_lost_connection_may_have_had_an_effect_unless_it_was_a_read() {
        let lost = || SqlxError::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(classify(lost(), Sent::Write).effect(), Effect::Unknown);
        assert_eq!(classify(lost(), Sent::Harmless).effect(), Effect::None);
        assert!(classify(lost(), Sent::Write).is_retryable());
        assert!(classify(lost(), Sent::Write).source().is_some());
    }
}
