//! [`ServerUrl`].

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

/// The URL of a server, or those of a cluster's nodes, separated by commas.
///
/// `Debug` does not show it, because it may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl(String);

/// `scheme://login@hosts`, and everything after it.
struct Parts<'u> {
    scheme: &'u str,
    login: &'u str,
    hosts: &'u str,
    rest: &'u str,
}

impl Parts<'_> {
    fn of(url: &str) -> Parts<'_> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let query = rest.find('?').unwrap_or(rest.len());
        let login = rest[..query].rfind('@').map_or(0, |at| at + 1);
        let (login, rest) = rest.split_at(login);
        let hosts = rest.find(['/', '?']).unwrap_or(rest.len());
        let (hosts, rest) = rest.split_at(hosts);
        Parts {
            scheme,
            login,
            hosts,
            rest,
        }
    }
}

impl ServerUrl {
    /// Returns the URL, or the URLs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part before the first colon.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// Returns the URL of each node. A comma alone may be part of a password.
    #[must_use]
    pub fn nodes(&self) -> Vec<&str> {
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

    /// Returns `host:port/database` of the server, or of each node.
    #[must_use]
    pub fn without_credentials(&self) -> String {
        let address = |url| {
            let Parts { hosts, rest, .. } = Parts::of(url);
            let path = rest.split('?').next().unwrap_or_default();
            format!("{hosts}{path}").trim_end_matches('/').to_owned()
        };
        let addresses: Vec<_> = self.nodes().into_iter().map(address).collect();
        addresses.join(", ")
    }

    /// Returns the URL, or each node's, with this address instead of its own.
    #[must_use]
    pub fn through(&self, address: SocketAddr) -> Self {
        self.each(|url| {
            let Parts {
                scheme,
                login,
                rest,
                ..
            } = Parts::of(url);
            format!("{scheme}://{login}{address}{rest}")
        })
    }

    /// Returns the URL with this parameter.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let separator = if self.0.contains('?') { '&' } else { '?' };
        Self(format!("{}{separator}{name}={value}", self.0))
    }

    /// Changes the URL of each node.
    #[must_use]
    pub fn each(&self, change: impl Fn(&str) -> String) -> Self {
        let changed: Vec<_> = self.nodes().into_iter().map(change).collect();
        Self(changed.join(","))
    }

    /// Returns the address of the first host, at its server's usual port if it names none.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let parts = Parts::of(self.nodes().first()?);
        let host = parts.hosts.split(',').next()?;
        let port = match parts.scheme {
            "postgres" | "postgresql" => 5432,
            "mysql" | "mariadb" => 3306,
            "mssql" | "sqlserver" => 1433,
            "mongodb" => 27017,
            "http" => 80,
            "https" => 443,
            _ => 6379,
        };
        let named = host.to_socket_addrs();
        let mut addresses = named.or_else(|_| (host, port).to_socket_addrs()).ok()?;
        addresses.next()
    }
}

impl<T: Into<String>> From<T> for ServerUrl {
    fn from(url: T) -> Self {
        Self(url.into())
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerUrl").finish_non_exhaustive()
    }
}

fn begins_url(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+';
    text.split_once("://")
        .is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.bytes().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = |url: &str| ServerUrl::from(url).without_credentials();
        let url = "postgres://me:p@ss@db.example:5432/idem?password=x";
        assert_eq!(shown(url), "db.example:5432/idem");
        let nodes = "mysql://me:p,x@one/idem,mysql://me:p,x@two:7/idem";
        assert_eq!(shown(nodes), "one/idem, two:7/idem");
        let url = "mongodb://me:x@one:27017/?directConnection=true";
        assert_eq!(shown(url), "one:27017");
        assert!(!format!("{:?}", ServerUrl::from(url)).contains("me:x"));
    }

    #[test]
    fn nodes_begin_with_a_scheme() {
        let nodes = |url: &'static str| -> Vec<String> {
            let url = ServerUrl::from(url);
            url.nodes().into_iter().map(ToOwned::to_owned).collect()
        };
        assert_eq!(nodes("redis://one"), ["redis://one"]);
        assert_eq!(
            nodes("redis://:a,b@one:1/0,rediss://two:2,valkey://three"),
            ["redis://:a,b@one:1/0", "rediss://two:2", "valkey://three"]
        );
        let set = "mongodb://one:1,two:2/?replicaSet=x";
        assert_eq!(nodes(set), [set]);
    }

    #[test]
    fn a_url_takes_another_address() {
        let proxy = ([127, 0, 0, 1], 9).into();
        let url = ServerUrl::from("postgres://me:x@[::1]:5432/idem?a=b@c");
        assert_eq!(url.address(), Some("[::1]:5432".parse().unwrap()));
        let usual = ServerUrl::from("mysql://127.0.0.1/idem").address();
        assert_eq!(usual, Some(([127, 0, 0, 1], 3306).into()));
        assert_eq!(
            url.through(proxy).as_str(),
            "postgres://me:x@127.0.0.1:9/idem?a=b@c"
        );
    }
}
