use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::{Error, Result};

const PATIENCE: Duration = Duration::from_secs(5);

/// The parts of a database URL that the probes here need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) database: Option<String>,
}

impl Url {
    pub(crate) fn parse(text: &str, default_port: u16) -> Result<Self> {
        let wrong =
            || Error::setting("not a database URL (scheme://user:password@host:port/database)");
        let (_, rest) = text.split_once("://").ok_or_else(wrong)?;
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => (Some(login), address),
            None => (None, authority),
        };
        let (host, port) = split_port(address, default_port).ok_or_else(wrong)?;
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            Some((user, password)) => (decode(user), decode(password)),
            None => (None, None),
        };
        Ok(Self {
            user,
            password,
            host,
            port,
            database: decode(database),
        })
    }

    /// A connection on which nothing is waited for longer than a few seconds.
    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn split_port(address: &str, default: u16) -> Option<(String, u16)> {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (address, default),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some((
        if host.is_empty() { "localhost" } else { host }.into(),
        port,
    ))
}

/// Percent-decoding; none of an empty text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = (*first == b'%')
            .then(|| std::str::from_utf8(tail.get(..2)?).ok())
            .flatten();
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::Url;

    fn parse(text: &str) -> Url {
        Url::parse(text, 5432).unwrap()
    }

    #[test]
    fn every_part_of_a_url_is_found() {
        let url = parse("postgres://me:p%40ss@db.example:6000/shop?sslmode=require");
        assert_eq!(
            (url.user.as_deref(), url.password.as_deref()),
            (Some("me"), Some("p@ss"))
        );
        assert_eq!(
            (url.host.as_str(), url.port, url.database.as_deref()),
            ("db.example", 6000, Some("shop"))
        );
    }

    #[test]
    fn absent_parts_have_their_defaults() {
        let url = parse("postgres://localhost");
        assert_eq!((url.host.as_str(), url.port), ("localhost", 5432));
        assert_eq!((url.user, url.password, url.database), (None, None, None));
    }

    #[test]
    fn an_ipv6_address_is_not_cut_at_its_colons() {
        assert_eq!(parse("postgres://[::1]/x").host, "::1");
        assert_eq!(parse("postgres://[::1]:7000/x").port, 7000);
    }

    #[test]
    fn what_is_not_a_url_is_refused_without_repeating_it() {
        let error = Url::parse("secret", 1).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
