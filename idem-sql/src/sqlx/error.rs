//! The meaning of sqlx's errors that do not come from the server.

use std::io;

use idem_core::backend::Meaning;
use idem_core::{BoxError, Effect, ErrorKind};
use sqlx::Error as SqlxError;

/// Returns the meaning of an error that the driver raised itself. `tls` is the message about a TLS
/// connection that failed, with the settings to check.
#[must_use]
pub fn driver_meaning(error: &SqlxError, tls: &'static str) -> Meaning {
    match error {
        // rustls reports a certificate that it does not trust in this way.
        SqlxError::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            (ErrorKind::Misconfigured, Effect::Unknown, tls)
        }
        error if is_lost(error) => (
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the connection to the server was lost",
        ),
        SqlxError::PoolTimedOut => (
            ErrorKind::Unavailable,
            Effect::None,
            "no connection became free in time; raise the pool's size or its `acquire_timeout`",
        ),
        SqlxError::PoolClosed => (ErrorKind::Misconfigured, Effect::None, "the pool is closed"),
        SqlxError::Tls(error) => (
            ErrorKind::Misconfigured,
            Effect::None,
            tls_meaning(error, tls),
        ),
        SqlxError::Configuration(_) | SqlxError::InvalidArgument(_) => (
            ErrorKind::Misconfigured,
            Effect::None,
            "the connection is not set up for this server; see the source",
        ),
        SqlxError::Encode(_) => (
            ErrorKind::InvalidInput,
            Effect::None,
            "a value cannot be sent",
        ),
        SqlxError::Protocol(_)
        | SqlxError::Decode(_)
        | SqlxError::ColumnDecode { .. }
        | SqlxError::ColumnIndexOutOfBounds { .. }
        | SqlxError::ColumnNotFound(_)
        | SqlxError::TypeNotFound { .. } => (
            ErrorKind::Corrupt,
            Effect::Unknown,
            "the server's answer makes no sense",
        ),
        _ => (
            ErrorKind::Other,
            Effect::Unknown,
            "the driver failed; see the source",
        ),
    }
}

/// sqlx tells these apart by their texts only.
fn tls_meaning(error: &BoxError, tls: &'static str) -> &'static str {
    match error.to_string() {
        text if text.contains("built without TLS") => {
            "the URL requires TLS, and the crate was built without its feature `tls`; turn it on"
        }
        text if text.contains("server does not support TLS") => {
            "the URL requires TLS, and the server has none; set the server up for it, or change \
             `sslmode` (MySQL: `ssl-mode`) on a network that you trust"
        }
        _ => tls,
    }
}

/// sqlx 0.9.0 reports the end of a connection as a byte, 0x00, where the server says whether it
/// speaks TLS. The server is then shutting down, or a proxy has no server behind it. No server
/// sends that byte. <https://github.com/transact-rs/sqlx/issues/4395>
fn is_lost(error: &SqlxError) -> bool {
    match error {
        SqlxError::Io(_) | SqlxError::WorkerCrashed => true,
        SqlxError::Protocol(text) => text.starts_with("unexpected response from SSLRequest: 0x00"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use idem_core::Error;
    use idem_core::backend::Access;

    use super::*;

    fn classified(error: SqlxError, access: Access) -> Error {
        access.error(driver_meaning(&error, "check TLS"), error)
    }

    #[test]
    fn a_connection_that_ended_at_the_question_for_tls_is_lost() {
        let answered = |byte: &str| {
            let text = format!("unexpected response from SSLRequest: {byte} (tls.rs:95)");
            classified(SqlxError::Protocol(text), Access::Read).kind()
        };
        assert_eq!(answered("0x00"), ErrorKind::Unavailable);
        assert_eq!(answered("0x48"), ErrorKind::Corrupt, "a server of HTTP");
    }

    #[test]
    fn tls_that_one_side_lacks_is_told_apart() {
        for (text, advice) in [
            (
                "TLS upgrade required, but SQLx was built without TLS support",
                "feature `tls`",
            ),
            ("server does not support TLS", "`sslmode`"),
            ("bad certificate", "check TLS"),
        ] {
            let error = classified(SqlxError::Tls(text.into()), Access::Read);
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn a_lost_connection_may_have_had_an_effect_unless_it_was_a_read() {
        let lost = || SqlxError::Io(io::ErrorKind::ConnectionReset.into());
        assert_eq!(classified(lost(), Access::Write).effect(), Effect::Unknown);
        assert_eq!(classified(lost(), Access::Read).effect(), Effect::None);
        assert!(classified(lost(), Access::Write).is_retryable());
        assert!(classified(lost(), Access::Write).source().is_some());
    }
}
