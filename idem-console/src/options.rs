//! [`Options`]: who may use the console, and for what.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http::{HeaderName, Uri};
use idem_core::{Effect, Error, ErrorKind, Result};

/// The options of a console. By default it listens on 127.0.0.1:7433, for the people of this
/// machine, and changes nothing.
#[derive(Clone)]
#[must_use]
pub struct Options {
    pub(crate) address: SocketAddr,
    pub(crate) access: Option<Access>,
    pub(crate) may_change: bool,
    pub(crate) shows_results: bool,
    pub(crate) hosts: Vec<String>,
    pub(crate) proxies: Vec<IpAddr>,
    pub(crate) metrics: Vec<Uri>,
    pub(crate) refresh: Duration,
    pub(crate) most_looked_at: u64,
    pub(crate) base_path: String,
}

impl Options {
    /// The address that a console listens on by default.
    pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7433);

    /// Creates the default options.
    pub fn new() -> Self {
        Self {
            address: Self::DEFAULT_ADDRESS,
            access: None,
            may_change: false,
            shows_results: false,
            hosts: Vec::new(),
            proxies: vec![
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(Ipv6Addr::LOCALHOST),
            ],
            metrics: Vec::new(),
            refresh: Duration::from_secs(5),
            most_looked_at: 10_000,
            base_path: String::new(),
        }
    }

    /// Sets the address to listen on. One that other machines reach needs
    /// [`with_access`](Self::with_access).
    pub fn with_address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Sets who may use the console. Default: the people of this machine, by the address of their
    /// requests, without a proxy between. A [`router`](crate::router) has no default.
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    /// Lets people release, fail and delete records. It needs [`with_access`](Self::with_access),
    /// because each change is recorded under a name.
    pub fn with_changes(mut self) -> Self {
        self.may_change = true;
        self
    }

    /// Lets people read stored results, which are the payloads of your service. Default: only
    /// their sizes are shown.
    pub fn with_shown_results(mut self) -> Self {
        self.shows_results = true;
        self
    }

    /// Adds a name under which browsers reach the console. On a loopback address, requests for
    /// any other name are refused, except `localhost` and addresses in digits: so a page of a
    /// stranger cannot point a name of its own at the console.
    pub fn with_host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// Sets the addresses of the proxies whose headers count: the user's name of
    /// [`Access::proxy_header`], `X-Forwarded-For` and `X-Forwarded-Proto`. Default: loopback.
    pub fn with_proxies(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.proxies = addresses.into_iter().collect();
        self
    }

    /// Adds a page of metrics in Prometheus' text format, such as that of a service with
    /// `MetricsObserver`: `http://10.0.0.7:9090/metrics`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the text is not the URL of a page on plain `http`, or has a login.
    pub fn with_metrics_url(mut self, url: &str) -> Result<Self> {
        self.metrics.push(page_of_metrics(url)?);
        Ok(self)
    }

    /// Sets how often an open overview is renewed. Default: 5 s; at least 100 ms. A sample never
    /// takes more than a tenth of one connection's time, so it may be renewed less often.
    pub fn with_refresh(mut self, interval: Duration) -> Self {
        self.refresh = interval.max(Duration::from_millis(100));
        self
    }

    /// Sets how many records a sample looks at. Default: 10,000. The overview says when the store
    /// has more.
    pub fn with_most_looked_at(mut self, records: u64) -> Self {
        self.most_looked_at = records.max(1);
        self
    }

    /// Sets the path under which a service mounts the [`router`](crate::router), such as
    /// `/admin/idem`. Default: the root.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the path does not begin with one slash, ends with one, or has other
    /// characters than ASCII letters, digits, `-`, `_`, `.` and slashes.
    pub fn with_base_path(mut self, path: &str) -> Result<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if !path.starts_with('/')
            || path.ends_with('/')
            || path.contains("//")
            || !path.chars().all(is_plain)
        {
            return Err(Error::invalid_input(
                "the path of a console looks like `/admin/idem`",
            ));
        }
        path.clone_into(&mut self.base_path);
        Ok(self)
    }

    /// Refuses options that would let strangers in, at this address.
    pub(crate) fn check(&self, address: SocketAddr) -> Result<()> {
        if self.access.is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(misconfigured(
                "other machines reach this address: the console needs access by a token or by a proxy's header",
            ));
        }
        self.check_changes()
    }

    /// Refuses a router that everybody could use who reaches the service.
    pub(crate) fn check_mounted(&self) -> Result<()> {
        match self.access {
            Some(_) => Ok(()),
            None => Err(misconfigured(
                "a mounted console needs access by a token or by a proxy's header: it does not know who reaches the service",
            )),
        }
    }

    pub(crate) fn check_changes(&self) -> Result<()> {
        if self.may_change && self.access.is_none() {
            return Err(misconfigured(
                "changes are recorded under a name: the console needs access by a token or by a proxy's header",
            ));
        }
        Ok(())
    }
}

fn misconfigured(message: &'static str) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// `Debug` does not show the token.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("address", &self.address)
            .field("access", &self.access)
            .field("may_change", &self.may_change)
            .field("shows_results", &self.shows_results)
            .field("base_path", &self.base_path)
            .finish_non_exhaustive()
    }
}

/// How people prove who they are.
#[derive(Clone)]
pub struct Access(pub(crate) Proof);

#[derive(Clone)]
pub(crate) enum Proof {
    Token(String),
    Header(HeaderName),
}

impl Access {
    /// Fewest bytes of a token.
    pub const MIN_TOKEN_BYTES: usize = 16;

    /// Lets people in who know this token. They type it on a page, or send it as `Authorization:
    /// Bearer`. Changes are recorded as by `console`, or `console:NAME` where they type a name.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the token has fewer than [`MIN_TOKEN_BYTES`](Self::MIN_TOKEN_BYTES), or
    /// characters other than visible ASCII.
    pub fn token(token: impl Into<String>) -> Result<Self> {
        let token = token.into();
        let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.len() < Self::MIN_TOKEN_BYTES || !is_plain {
            return Err(Error::invalid_input(
                "the token of a console has at least 16 visible ASCII characters; `openssl rand -hex 32` makes one",
            ));
        }
        Ok(Self(Proof::Token(token)))
    }

    /// Lets people in whom a proxy has authenticated: it sets this header to the user's name, and
    /// removes it from what browsers send. The header counts only from the addresses of
    /// [`with_proxies`](Options::with_proxies). Changes are recorded under that name.
    ///
    /// Everybody on the machine of a proxy can send the header, and so take any name. By default
    /// that is this machine.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when this is not the name of a header.
    pub fn proxy_header(name: &str) -> Result<Self> {
        let name = name.parse().map_err(|_| {
            Error::invalid_input("not the name of a header; a proxy sets, say, `x-forwarded-user`")
        })?;
        Ok(Self(Proof::Header(name)))
    }
}

/// `Debug` does not show the token.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Proof::Token(_) => f.write_str("Token"),
            Proof::Header(name) => f.debug_tuple("Header").field(name).finish(),
        }
    }
}

/// Parses the URL of a page of metrics.
pub(crate) fn page_of_metrics(url: &str) -> Result<Uri> {
    let uri = url.parse::<Uri>().ok();
    let is_http = |uri: &Uri| {
        let place = uri.authority().map_or("", |place| place.as_str());
        uri.scheme_str() == Some("http") && !place.is_empty() && !place.contains('@')
    };
    uri.filter(is_http).ok_or_else(|| {
        Error::invalid_input(
            "the URL of a page of metrics begins with http:// and has a host, and no password",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_not_let_in() {
        let everywhere: SocketAddr = "0.0.0.0:7433".parse().unwrap();
        let open = Options::new();
        assert!(open.check(Options::DEFAULT_ADDRESS).is_ok());
        assert!(open.check("[::1]:7433".parse().unwrap()).is_ok());
        assert_eq!(
            open.check(everywhere).unwrap_err().kind(),
            ErrorKind::Misconfigured
        );
        let token = Access::token("0123456789abcdef").unwrap();
        assert!(
            open.clone()
                .with_access(token.clone())
                .check(everywhere)
                .is_ok()
        );
        let changes = open.with_changes();
        assert!(changes.check(Options::DEFAULT_ADDRESS).is_err());
        let changes = changes.with_access(token);
        assert!(changes.check(Options::DEFAULT_ADDRESS).is_ok());
        assert!(!format!("{changes:?}").contains("0123456789"));
    }

    #[test]
    fn texts_are_checked() {
        for token in ["", "short", "a token with spaces in it", "0123456789abcdé"] {
            assert!(Access::token(token).is_err(), "{token}");
        }
        assert!(Access::proxy_header("x forwarded").is_err());
        for url in [
            "https://a/metrics",
            "/metrics",
            "a b",
            "http://u:p@a/metrics",
        ] {
            assert!(Options::new().with_metrics_url(url).is_err(), "{url}");
        }
        for path in ["admin", "/admin/", "/", "//admin", "/{id}"] {
            assert!(Options::new().with_base_path(path).is_err(), "{path}");
        }
        assert!(Options::new().with_base_path("/admin/idem").is_ok());
    }
}
