//! The meaning of the driver's and the server's errors for the caller.

pub(crate) use idem_core::backend::Access;
use std::error::Error as StdError;
use std::{fmt, io};

use deadpool::managed::PoolError;
use idem_core::{Effect, Error, ErrorKind};
use tiberius::error::{Error as DriverError, TokenError};

use crate::codes;

/// From this severity on, the server closes the connection:
/// <https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-error-severities>.
const FATAL: u8 = 20;

const BAD_TLS: (ErrorKind, Effect, &str) = (
    ErrorKind::Misconfigured,
    Effect::Unknown,
    "the TLS connection failed; check `encrypt`, `trust_cert` and the server's certificate",
);

/// Converts a driver error, which stays as the source.
pub(crate) fn classify(error: DriverError, sent: Access) -> Error {
    let meaning = match &error {
        DriverError::Server(token) => codes::meaning(token.code(), token.message()),
        DriverError::Io { kind, .. } if *kind == io::ErrorKind::TimedOut => (
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the server did not answer in time",
        ),
        DriverError::Routing { .. } => (
            ErrorKind::Unavailable,
            Effect::None,
            "the server sends the client elsewhere again and again",
        ),
        DriverError::Tls(_) => BAD_TLS,
        // rustls reports data that it does not understand in this way.
        DriverError::Io { kind, .. } if *kind == io::ErrorKind::InvalidData => BAD_TLS,
        DriverError::Protocol(text) if text.contains("encryption level") => (
            ErrorKind::Misconfigured,
            Effect::None,
            "the server does not encrypt; set it up for TLS, or say `encrypt=off` on a network that you trust",
        ),
        DriverError::Io { .. } => (
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the connection to the server was lost",
        ),
        // The driver reports a connection that was left half-read in the same way.
        DriverError::Protocol(_) => (
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the server's answer is not what the protocol says; if that lasts, check the address and `encrypt`",
        ),
        DriverError::Encoding(_)
        | DriverError::Conversion(_)
        | DriverError::Utf8
        | DriverError::Utf16
        | DriverError::ParseInt(_) => (
            ErrorKind::Corrupt,
            Effect::Unknown,
            "the server's answer makes no sense",
        ),
        _ => (
            ErrorKind::Other,
            Effect::Unknown,
            "the driver failed; see the source",
        ),
    };
    match error {
        DriverError::Server(token) if codes::may_show_values(token.code(), token.message()) => {
            sent.error(meaning, Withheld::from(&token))
        }
        error => sent.error(meaning, error),
    }
}

/// An error of the server without its text, which may show a value of the row, such as the key of a
/// duplicate.
#[derive(Debug)]
struct Withheld {
    code: u32,
    state: u8,
    class: u8,
}

impl From<&TokenError> for Withheld {
    fn from(token: &TokenError) -> Self {
        Self {
            code: token.code(),
            state: token.state(),
            class: token.class(),
        }
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, state, class } = self;
        write!(
            f,
            "the server's error {code}, state {state}, class {class}; its text may show a key and is left out"
        )
    }
}

impl StdError for Withheld {}

/// Converts the error of a pool that gave no connection.
pub(crate) fn no_connection(error: PoolError<DriverError>) -> Error {
    match error {
        PoolError::Backend(error) => classify(error, Access::Read),
        PoolError::Closed => {
            Error::new(ErrorKind::Misconfigured, Effect::None, "the pool is closed")
        }
        error => Error::new(
            ErrorKind::Unavailable,
            Effect::None,
            "no connection became free in time; raise the pool's size or its timeouts",
        )
        .with_source(error),
    }
}

/// Returns whether the answer was read to its end, so that the next bytes belong to the next
/// answer. The driver reports an error of the server after the rest of the answer.
pub(crate) fn ends_in_step<T>(answer: &Result<T, DriverError>) -> bool {
    match answer {
        Ok(_) => true,
        Err(DriverError::Server(token)) => token.class() < FATAL,
        Err(_) => false,
    }
}

/// Returns whether the database only reads.
pub(crate) fn only_reads(error: &DriverError) -> bool {
    matches!(error, DriverError::Server(token) if codes::only_reads(token.code(), token.message()))
}

/// Returns whether a claim lost a race that only the server's error shows: 2601, 2627. A repeated
/// claim sees the winner.
pub(crate) fn is_lost_race(error: &Error) -> bool {
    matches!(server_code(error), Some(2601 | 2627))
}

/// Returns whether another transaction's lock was not free in time; nothing was done then.
pub(crate) fn is_lock_timeout(error: &Error) -> bool {
    server_says(error, codes::is_lock_timeout)
}

/// Returns whether a number in one row of a batch cannot grow any more; nothing was done then.
pub(crate) fn is_overflow(error: &Error) -> bool {
    server_says(error, codes::is_overflow)
}

/// Returns whether the server does not know the statement, or a part of it; nothing was done then.
pub(crate) fn is_unknown_statement(error: &Error) -> bool {
    server_says(error, codes::is_unknown)
}

/// Returns whether the server rolled everything back because of another transaction.
pub(crate) fn is_rolled_back(error: &Error) -> bool {
    server_says(error, codes::rolls_back)
}

/// Applies the test to the server's number and text, if this is the server's error.
fn server_says(error: &Error, says: fn(u32, &str) -> bool) -> bool {
    let Some(source) = error.source() else {
        return false;
    };
    if let Some(withheld) = source.downcast_ref::<Withheld>() {
        // Their numbers are sufficient.
        return says(withheld.code, "");
    }
    match source.downcast_ref() {
        Some(DriverError::Server(token)) => says(token.code(), token.message()),
        _ => false,
    }
}

/// Returns whether the object that the server was to create existed already, or was being created
/// by another session.
pub(crate) fn is_created_elsewhere(error: &Error) -> bool {
    matches!(
        server_code(error),
        Some(1205 | 1913 | 2601 | 2627 | 2714 | 2759)
    )
}

/// Returns the server's number of the error's source.
fn server_code(error: &Error) -> Option<u32> {
    let source = error.source()?;
    match source.downcast_ref::<Withheld>() {
        Some(withheld) => Some(withheld.code),
        None => source.downcast_ref::<DriverError>()?.code(),
    }
}

/// Returns whether to repeat the whole transaction. This error, or one of its sources, is a
/// deadlock (1205), a conflict of row versions (3960, and 41302, 41305, 41325, 41301 of
/// memory-optimised tables), or `Contention` of this crate: a key that another open transaction
/// holds (1222), a lost race of a claim in the transaction (2601, 2627), a key that changed hands
/// too often.
#[must_use]
pub fn is_transaction_retryable(error: &(dyn StdError + 'static)) -> bool {
    idem_sql::transactions::is_retryable(error, |error| {
        // A duplicate key among the caller's own rows is not the store's, nor is a lock that those
        // wait for.
        match error.downcast_ref()? {
            DriverError::Server(token) => Some(codes::rolls_back(token.code(), token.message())),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_may_have_had_an_effect_unless_it_was_a_read() {
        let lost = || DriverError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        assert_eq!(classify(lost(), Access::Write).effect(), Effect::Unknown);
        assert_eq!(classify(lost(), Access::Read).effect(), Effect::None);
        assert!(classify(lost(), Access::Write).is_retryable());
        assert!(classify(lost(), Access::Write).source().is_some());
        assert!(!ends_in_step::<()>(&Err(lost())));
    }

    #[test]
    fn errors_of_the_driver_are_classified() {
        use ErrorKind::{Corrupt, Misconfigured, Unavailable};
        let routing = DriverError::Routing {
            host: "elsewhere".to_owned(),
            port: 1,
        };
        for (error, kind) in [
            (DriverError::Tls("no".to_owned()), Misconfigured),
            (DriverError::Protocol("no".into()), Unavailable),
            (DriverError::Conversion("no".into()), Corrupt),
            (DriverError::Utf16, Corrupt),
            (routing, Unavailable),
            (io::Error::from(io::ErrorKind::TimedOut).into(), Unavailable),
        ] {
            assert!(!ends_in_step::<()>(&Err(error.clone())), "{error}");
            assert_eq!(
                classify(error.clone(), Access::Write).kind(),
                kind,
                "{error}"
            );
        }
    }

    #[test]
    fn a_key_that_another_transaction_holds_is_worth_another_transaction() {
        let contention = idem_core::backend::LockedKeys::error().at("mssql", "claim_in");
        assert!(is_transaction_retryable(&contention));
        let boxed = idem_core::BoxError::from(contention);
        assert!(is_transaction_retryable(&*boxed));
        assert!(!is_transaction_retryable(&Error::claim_lost()));
    }

    #[test]
    fn a_closed_pool_is_no_passing_trouble() {
        assert!(!no_connection(PoolError::Closed).is_retryable());
        let lost = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = no_connection(PoolError::Backend(lost.into()));
        assert_eq!((error.is_retryable(), error.effect()), (true, Effect::None));
    }
}
