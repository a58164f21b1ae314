//! [`Client`]: where a request comes from.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use http::request::Parts;

use crate::options::Options;

/// What is known about the sender of a request. Headers count only when a proxy has sent them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client {
    /// The browser's address; `None` where the server does not tell it.
    pub(crate) address: Option<IpAddr>,
    /// Whether the request comes from one of the proxies.
    pub(crate) is_proxy: bool,
    /// Whether the browser's own connection is encrypted.
    pub(crate) is_https: bool,
}

impl Client {
    pub(crate) fn of(parts: &Parts, options: &Options) -> Self {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map(|ConnectInfo(peer)| peer.ip().to_canonical());
        let is_proxy = peer.is_some_and(|peer| options.proxies.contains(&peer));
        // The last value is the proxy's own; those before it may be the browser's invention.
        let behind = |name: &str| {
            let mut values = parts.headers.get_all(name).iter();
            let value = values.rfind(|_| is_proxy)?.as_bytes();
            let own = value.rsplit(|byte| *byte == b',').next()?;
            Some(std::str::from_utf8(own).unwrap_or_default().trim())
        };
        // A value that is no address stands for an unknown sender, not for the proxy.
        let forwarded = behind("x-forwarded-for").map(|address| address.parse().ok());
        Self {
            address: forwarded.unwrap_or(peer),
            is_proxy,
            is_https: behind("x-forwarded-proto") == Some("https"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, headers: &[(&str, &str)]) -> Client {
        let mut request = http::Request::new(());
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            request.headers_mut().append(name, value.parse().unwrap());
        }
        let peer: SocketAddr = peer.parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(peer));
        Client::of(&request.into_parts().0, &Options::new())
    }

    #[test]
    fn headers_count_only_from_a_proxy() {
        let headers = [
            ("x-forwarded-for", "1.1.1.1, 10.0.0.9"),
            ("x-forwarded-proto", "https"),
        ];
        let proxied = client("127.0.0.1:9", &headers);
        assert_eq!(proxied.address, Some(IpAddr::from([10, 0, 0, 9])));
        assert!(proxied.is_proxy && proxied.is_https);
        assert_eq!(client("[::ffff:127.0.0.1]:9", &headers), proxied);
        let direct = client("10.0.0.7:9", &headers);
        assert_eq!(direct.address, Some(IpAddr::from([10, 0, 0, 7])));
        assert!(!direct.is_proxy && !direct.is_https);
    }
}
