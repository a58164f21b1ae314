//! [`ReplayedHeaders`]: the headers of a response that are stored and replayed.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::media;

/// Headers that belong to the first exchange or its connection, or that the server sets on each
/// response.
static NEVER: [HeaderName; 15] = [
    header::SET_COOKIE,
    HeaderName::from_static("set-cookie2"),
    // RFC 9110, 7.6.1
    header::CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TRAILER,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::CONTENT_LENGTH,
    header::DATE,
    crate::IDEMPOTENT_REPLAYED,
    crate::FIRST_ANSWERED,
];

/// Headers of one exchange that handlers and their layers set: a trace, a browser's check, a login or
/// a session belongs to the caller who got it.
const OF_THE_EXCHANGE: [&str; 13] = [
    "age",
    "alt-svc",
    "mcp-session-id",
    "request-id",
    "server",
    "server-timing",
    "traceparent",
    "tracestate",
    "via",
    "www-authenticate",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    "x-request-id",
];

/// The headers of a response that the layer stores and replays.
///
/// Default: all that the handler set, except those of the exchange: `Age`, `Alt-Svc`, `Mcp-Session-Id`,
/// `Request-Id`, `Server`, `Server-Timing`, `Via`, `WWW-Authenticate`, `X-Request-Id`, those of traces
/// (`traceparent`, `tracestate`, `X-Amzn-Trace-Id`, `X-Cloud-Trace-Context`, `X-B3-…`) and of CORS
/// (`Access-Control-…`).
///
/// Never stored or replayed, even if added: `Set-Cookie`; the hop-by-hop headers of RFC 9110,
/// 7.6.1; headers that the response's `Connection` names; and headers that a server sets itself:
/// `Content-Length`, `Date`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedHeaders {
    /// Whether a header that is in neither list is replayed.
    others: bool,
    with: Vec<HeaderName>,
    without: Vec<HeaderName>,
}

impl ReplayedHeaders {
    /// Creates an empty set.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            others: false,
            with: Vec::new(),
            without: Vec::new(),
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName) -> Self {
        self.without.retain(|removed| *removed != name);
        self.with.push(name);
        self
    }

    /// Removes a header.
    #[must_use]
    pub fn without(mut self, name: &HeaderName) -> Self {
        self.with.retain(|added| added != name);
        self.without.push(name.clone());
        self
    }

    fn contains(&self, name: &HeaderName) -> bool {
        let is_of_the_exchange = || {
            let name = name.as_str();
            OF_THE_EXCHANGE.contains(&name)
                || name.starts_with("access-control-")
                || name.starts_with("x-b3-")
        };
        self.with.contains(name)
            || (self.others && !self.without.contains(name) && !is_of_the_exchange())
    }

    /// Returns the headers to store, in their order.
    pub(crate) fn stored(&self, headers: &HeaderMap) -> impl Iterator<Item = (String, Bytes)> {
        let nominated = nominated(headers);
        headers
            .iter()
            .filter(|(name, _)| self.contains(name) && !NEVER.contains(name))
            .filter(move |(name, _)| {
                !nominated
                    .iter()
                    .any(|other| other == name.as_str().as_bytes())
            })
            .map(|(name, value)| {
                (
                    name.as_str().to_owned(),
                    Bytes::copy_from_slice(value.as_bytes()),
                )
            })
    }

    /// Returns the headers to replay. It drops those that must never be replayed, even if a record
    /// has them.
    pub(crate) fn replayed(stored: Vec<(String, Bytes)>) -> HeaderMap {
        // Two more mark a replay.
        let mut headers = HeaderMap::with_capacity(stored.len() + 2);
        for (name, value) in stored {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_maybe_shared(value);
            if let (Ok(name), Ok(value)) = (name, value)
                && !NEVER.contains(&name)
            {
                headers.append(name, value);
            }
        }
        headers
    }
}

impl Default for ReplayedHeaders {
    fn default() -> Self {
        Self {
            others: true,
            ..Self::none()
        }
    }
}

/// Returns the headers that `Connection` names.
fn nominated(headers: &HeaderMap) -> Vec<Vec<u8>> {
    let names = media::elements(headers, &header::CONNECTION);
    names.map(<[u8]>::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(rules: &ReplayedHeaders, headers: &HeaderMap) -> Vec<String> {
        rules.stored(headers).map(|(name, _)| name).collect()
    }

    #[test]
    fn a_header_that_may_never_be_replayed_is_not_even_when_requested() {
        let mut rules = ReplayedHeaders::none();
        let mut headers = HeaderMap::new();
        for name in &NEVER {
            headers.insert(name.clone(), HeaderValue::from_static("x"));
            rules = rules.with(name.clone());
        }
        assert_eq!(names(&rules, &headers), [""; 0]);
        let stored = NEVER
            .iter()
            .map(|name| (name.to_string(), Bytes::from("x")));
        assert!(ReplayedHeaders::replayed(stored.collect()).is_empty());
    }

    #[test]
    fn what_the_handler_said_is_replayed_and_what_belongs_to_the_exchange_is_not() {
        let mut headers = HeaderMap::new();
        for name in [
            "operation-location",
            "pspreference",
            "location",
            "x-amzn-requestid",
            "access-control-allow-origin",
            "traceparent",
            "x-b3-traceid",
            "www-authenticate",
            "request-id",
            "set-cookie",
            "date",
        ] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        let request_id = HeaderName::from_static("request-id");
        let kept = [
            "operation-location",
            "pspreference",
            "location",
            "x-amzn-requestid",
        ];
        let default = ReplayedHeaders::default();
        assert_eq!(names(&default, &headers), kept);
        let rules = default.without(&header::LOCATION).with(request_id);
        let kept = [
            "operation-location",
            "pspreference",
            "x-amzn-requestid",
            "request-id",
        ];
        assert_eq!(names(&rules, &headers), kept);
    }

    #[test]
    fn headers_that_the_connection_names_are_left_out() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("close, ETag"));
        headers.append(
            header::CONNECTION,
            HeaderValue::from_bytes(b"\xfc, x-hop").unwrap(),
        );
        for name in [
            header::ETAG,
            header::LOCATION,
            HeaderName::from_static("x-hop"),
        ] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        let rules = ReplayedHeaders::default().with(HeaderName::from_static("x-hop"));
        assert_eq!(names(&rules, &headers), ["location"]);
    }

    #[test]
    fn repeated_headers_keep_their_order_and_bytes() {
        let mut headers = HeaderMap::new();
        headers.append(header::LINK, HeaderValue::from_static("<a>"));
        headers.append(header::LINK, HeaderValue::from_bytes(b"<\xff>").unwrap());
        let stored = ReplayedHeaders::default().stored(&headers).collect();
        assert_eq!(ReplayedHeaders::replayed(stored), headers);
    }
}
