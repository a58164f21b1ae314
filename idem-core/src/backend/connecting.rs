//! The errors of a first connection: what was wrong, where, and what to do.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io;

use crate::{Effect, Error, ErrorKind, Result};

/// The schemes of URLs, each with the crate that reads it.
const SCHEMES: [(&str, &str); 14] = [
    ("mariadb", "idem-mysql"),
    ("mongodb", "idem-mongo"),
    ("mongodb+srv", "idem-mongo"),
    ("mssql", "idem-mssql"),
    ("mysql", "idem-mysql"),
    ("postgres", "idem-postgres"),
    ("postgresql", "idem-postgres"),
    ("redis", "idem-redis"),
    ("redis+unix", "idem-redis"),
    ("rediss", "idem-redis"),
    ("sqlite", "idem-sqlite"),
    ("sqlserver", "idem-mssql"),
    ("valkey", "idem-redis"),
    ("valkeys", "idem-redis"),
];

/// Refuses a URL with another scheme than `own`: drivers ignore it, and log in at another database.
/// `form` is the URL as it should be.
///
/// # Errors
///
/// `Misconfigured`. The message quotes nothing of the URL except the scheme of a known database,
/// because a text without a scheme may begin with a password.
pub fn check_scheme(url: &str, own: &[&str], form: &str) -> Result<()> {
    let scheme = url.split(':').next().unwrap_or_default();
    if own.iter().any(|own| scheme.eq_ignore_ascii_case(own)) {
        return Ok(());
    }
    let of = |(known, _): &&(&str, &str)| scheme.eq_ignore_ascii_case(known);
    Err(match SCHEMES.iter().find(of) {
        Some((other, name)) => unreadable(&format!(
            "is of another database: it begins with `{other}:`, which {name} reads; here it is {form}"
        )),
        None => unreadable(&format!("has no scheme of this database; it is {form}")),
    })
}

/// Returns the error of a URL that the driver cannot read, which is kept as the source.
#[must_use]
pub fn misread(form: &str, source: impl Into<crate::BoxError>) -> Error {
    unreadable(&format!("cannot be read; it is {form}")).with_source(source)
}

fn unreadable(what: &str) -> Error {
    let message = format!("the URL {what}");
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

/// Returns the error of a first connection with its place, which has no login, and with what to do.
#[must_use]
pub fn not_connected(error: Error, place: impl Display) -> Error {
    let message = match remedy(&error) {
        Some(remedy) => format!("{place}: {remedy}"),
        None => format!("{place}: {}", error.message()),
    };
    error.with_message(message)
}

/// Returns what to do about an error of the network. Drivers hide it in types of their own, and
/// some in their text.
fn remedy(error: &Error) -> Option<&'static str> {
    const REFUSED: &str = "nothing listens there (connection refused); start the server, or correct \
                           host and port in the URL";
    const UNKNOWN: &str =
        "the host is not known; correct it in the URL, or ask why this machine cannot look it up";
    const SILENT: &str = "no answer in time; check host and port in the URL, the firewall, and \
                          whether the server is up";
    let mut next = error.source();
    while let Some(error) = next {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let text = error.to_string();
        let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
        // The second is of Windows, as below.
        if kind == Some(io::ErrorKind::ConnectionRefused)
            || says(&["Connection refused", "(os error 10061)"])
        {
            return Some(REFUSED);
        }
        if says(&["failed to lookup address", "(os error 11001)"]) {
            return Some(UNKNOWN);
        }
        if kind == Some(io::ErrorKind::TimedOut) {
            return Some(SILENT);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_of_another_database_is_refused_by_name() {
        let check = |url: &str| check_scheme(url, &["postgres"], "postgres://host/database");
        for url in ["postgres://a:s3cret@b/c", "POSTGRES://b"] {
            assert!(check(url).is_ok(), "{url}");
        }
        let schemes = SCHEMES.iter().filter(|(scheme, _)| *scheme != "postgres");
        let foreign = schemes.map(|(scheme, name)| (format!("{scheme}://a:s3cret@b/c"), *name));
        let other = ["s3cret@b", "s3cret:x@b", "oracle://a:s3cret@b", ""];
        let other = other.map(|url| (url.to_owned(), "no scheme"));
        for (url, named) in foreign.chain(other) {
            let error = check(&url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(named) && shown.contains("postgres://host"));
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }

    #[test]
    fn the_message_comes_first_in_debug_and_keeps_the_kind() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let lost = Error::new(ErrorKind::Unavailable, Effect::None, "lost").with_source(refused);
        let error = not_connected(lost, "db:5432/shop").at("postgres", "connect");
        assert!(error.is_retryable());
        let start = r#"Error { message: "postgres connect: db:5432/shop: nothing listens there"#;
        let shown = format!("{error:?}");
        assert!(shown.starts_with(start), "{shown}");
        let other = not_connected(Error::corrupt("odd"), "db:5432");
        assert_eq!(other.to_string(), "db:5432: odd");
    }
}
