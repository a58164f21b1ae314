//! [`StoreUrl`]: the address of a store, whose password is never shown.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The URL of a store, or those of a cluster's nodes with commas.
///
/// Reading it never fails, because the parser of arguments quotes what it refuses. Neither `Debug`
/// nor `Display` shows user, password or parameters.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoreUrl(String);

impl StoreUrl {
    /// Returns the whole text, for drivers.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part before the first colon, in small letters.
    pub(crate) fn scheme(&self) -> String {
        let scheme = self.0.split(':').next().unwrap_or_default();
        scheme.to_ascii_lowercase()
    }

    /// Returns `user:password@`, or nothing, and the rest after it, both without the scheme.
    pub(crate) fn login_and_rest(&self) -> (&str, &str) {
        split_login(&self.0)
    }

    /// Returns whether the first host is this machine, or there is no host.
    pub(crate) fn is_local(&self) -> bool {
        let rest = self.login_and_rest().1;
        let host = match rest.strip_prefix('[') {
            Some(six) => six.split(']').next(),
            None => rest.split([':', '/', '?', ',', ';']).next(),
        };
        let host = host.unwrap_or_default();
        let is_loopback = |address: IpAddr| address.is_loopback();
        self.scheme().contains("unix")
            || ["", "localhost"].contains(&host)
            || host.parse().is_ok_and(is_loopback)
    }

    /// Returns the URL of each node. A comma alone may be part of a password.
    pub(crate) fn nodes(&self) -> Vec<&str> {
        let mut nodes = Vec::new();
        let mut start = 0;
        for (comma, _) in self.0.match_indices(',') {
            if begins_url(&self.0[comma + 1..]) {
                nodes.push(&self.0[start..comma]);
                start = comma + 1;
            }
        }
        nodes.push(&self.0[start..]);
        nodes
    }
}

impl From<String> for StoreUrl {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl FromStr for StoreUrl {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.nodes().into_iter().map(shown).collect();
        f.write_str(&shown.join(","))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

fn split_login(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    // A password may have a `/` or an `@` that is not encoded: the last `@` ends it.
    let login = rest.rfind('@').map_or(0, |at| at + 1);
    rest.split_at(login)
}

/// Returns scheme, host and path. A text without `//` is a file's name or no URL at all.
fn shown(url: &str) -> String {
    let without = |text: &str| text.split('?').next().unwrap_or_default().to_owned();
    match url.split_once("://") {
        // Either the password has the `?`, or a parameter the `@`.
        Some((scheme, rest))
            if rest
                .split_once('?')
                .is_some_and(|(_, end)| end.contains('@')) =>
        {
            format!("{scheme}://…")
        }
        Some((scheme, _)) => format!("{scheme}://{}", without(split_login(url).1)),
        None if url.to_ascii_lowercase().starts_with("sqlite:") => without(url),
        None => "a text that is no URL".to_owned(),
    }
}

fn begins_url(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-');
    text.split_once("://")
        .is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.bytes().all(plain))
}

/// Replaces the arguments that hold a URL within a text that quotes them.
pub(crate) fn without_secrets(text: &str, args: impl Iterator<Item = String>) -> String {
    let mut text = text.to_owned();
    let may_be_url = |arg: &String| {
        ["://", "@", "sqlite:"]
            .iter()
            .any(|mark| arg.contains(mark))
    };
    for arg in args.filter(may_be_url) {
        let value = match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => value,
            _ => &arg,
        };
        text = text.replace(value, &shown(value));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> StoreUrl {
        StoreUrl::from(text.to_owned())
    }

    #[test]
    fn neither_form_shows_a_password() {
        for (text, expected) in [
            (
                "postgres://me:s3cret@db:5432/idem?sslmode=require",
                "postgres://db:5432/idem",
            ),
            ("mysql://me:s3/c@ret@db/idem", "mysql://db/idem"),
            ("mysql://me:s3?cret@db/idem", "mysql://…"),
            ("postgres://db/idem?password=s3@cret", "postgres://…"),
            (
                "redis://:s3cret@one:1/0,rediss://:s3cret@two",
                "redis://one:1/0,rediss://two",
            ),
            ("redis://:s3,cret@one:1", "redis://one:1"),
            ("postgres://db/idem?password=s3cret", "postgres://db/idem"),
            ("sqlite:idem.db?mode=ro", "sqlite:idem.db"),
            ("me:s3cret@db", "a text that is no URL"),
        ] {
            let url = url(text);
            assert_eq!(url.to_string(), expected);
            assert!(!format!("{url:?}").contains("cret"), "{url:?}");
        }
    }

    #[test]
    fn a_quoted_argument_loses_its_password() {
        let args = ["idem", "--stre=postgres://me:s3cret@db/idem"];
        let text = "unexpected argument '--stre=postgres://me:s3cret@db/idem'";
        let shown = without_secrets(text, args.into_iter().map(str::to_owned));
        assert_eq!(shown, "unexpected argument '--stre=postgres://db/idem'");
    }

    #[test]
    fn this_machine_is_recognized() {
        for (place, is_local) in [
            ("redis://:p@127.0.0.1:1", true),
            ("mysql://me@localhost/x", true),
            ("unix:///run/r", true),
            ("redis://[::1]:1", true),
            ("redis://:localhost@db", false),
            ("mysql://localhost.example.com/x", false),
        ] {
            assert_eq!(url(place).is_local(), is_local, "{place}");
        }
    }

    #[test]
    fn nodes_begin_with_a_scheme() {
        let cluster = url("redis://a:1,redis://b:2");
        assert_eq!(cluster.nodes(), ["redis://a:1", "redis://b:2"]);
        assert_eq!(url("mongodb://a:1,b:2/x").nodes().len(), 1);
        assert_eq!(url("Redis://a").scheme(), "redis");
    }
}
