//! [`Carrier`]: where a request carries its key.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};

use super::member;
use crate::fingerprint;
use crate::{Error, IssuedKey};

/// Where a request carries its key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carrier {
    /// A header with the key as it is.
    Header(HeaderName),
    /// A header with the key in double quotes, a string of structured fields (RFC 9651).
    QuotedHeader(HeaderName),
    /// Two headers: the key, and when it was first sent, an HTTP date that stays the same on every
    /// repeat.
    HeaderPair {
        /// The header of the key.
        id: HeaderName,
        /// The header of the date.
        first_sent: HeaderName,
    },
    /// A member of the JSON body, by its JSON Pointer (RFC 6901) such as `/idempotency_key`. The
    /// objects above it must be there, the member itself must not. It becomes the first member of
    /// its object; the other bytes of the body stay as they are.
    Member(String),
}

/// Headers with a digest of the body.
const DIGESTS: [&str; 4] = ["content-digest", "content-md5", "digest", "repr-digest"];

/// A key in its place, the same for every try.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placed {
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The body with the key; `None` where the body stays as it is.
    pub(crate) body: Option<Bytes>,
}

impl Carrier {
    /// Checks that the request can carry a key, before one is made.
    pub(crate) fn check(&self, headers: &HeaderMap, body: &Bytes) -> Result<(), Error> {
        let is_taken = |name: &HeaderName| headers.contains_key(name);
        match self {
            Self::Header(name) | Self::QuotedHeader(name) if is_taken(name) => Err(present()),
            Self::HeaderPair { id, first_sent } if is_taken(id) || is_taken(first_sent) => {
                Err(present())
            }
            Self::Member(_) if fingerprint::is_encoded(headers) => Err(Error::invalid(
                "the request has a content coding, so its body cannot carry a key; compress it \
                 after the key was added",
            )),
            Self::Member(_) if DIGESTS.iter().any(|name| headers.contains_key(*name)) => {
                Err(Error::invalid(
                    "the request has a digest of its body, which the key would change; add the \
                     digest after the key was added",
                ))
            }
            Self::Member(pointer) => member::add(body, pointer, "").map(drop),
            Self::Header(_) | Self::QuotedHeader(_) | Self::HeaderPair { .. } => Ok(()),
        }
    }

    /// Returns the headers or the body that carry this key.
    pub(crate) fn place(&self, key: &IssuedKey, body: &Bytes) -> Result<Placed, Error> {
        let mut placed = Placed::default();
        match self {
            Self::Header(name) => placed.add(name, key.as_str())?,
            Self::QuotedHeader(name) => placed.add(name, &quoted(key.as_str()))?,
            Self::HeaderPair { id, first_sent } => {
                placed.add(id, key.as_str())?;
                placed.add(first_sent, &http_date(key.first_sent())?)?;
            }
            Self::Member(pointer) => {
                placed.body = Some(member::add(body, pointer, key.as_str())?);
            }
        }
        Ok(placed)
    }
}

impl Placed {
    fn add(&mut self, name: &HeaderName, value: &str) -> Result<(), Error> {
        let value = HeaderValue::from_str(value)
            .map_err(|_| Error::corrupt("the kept key has a character that no header carries"))?;
        self.headers.push((name.clone(), value));
        Ok(())
    }

    /// Adds the headers to those of a try.
    pub(crate) fn apply(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        if let Some(body) = &self.body
            && headers.contains_key(CONTENT_LENGTH)
        {
            headers.insert(CONTENT_LENGTH, body.len().into());
        }
    }
}

/// Writes a string of structured fields. A key that this crate makes has nothing to escape.
fn quoted(key: &str) -> String {
    let escaped = key.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

/// Writes an HTTP date. `httpdate` panics on instants before 1970 and after 9999.
fn http_date(instant: SystemTime) -> Result<String, Error> {
    const YEAR_10000: u64 = 253_402_300_800;
    match instant.duration_since(UNIX_EPOCH) {
        Ok(since) if since.as_secs() < YEAR_10000 => Ok(httpdate::fmt_http_date(instant)),
        _ => Err(Error::corrupt(
            "the date of the first sending is not between the years 1970 and 9999",
        )),
    }
}

fn present() -> Error {
    Error::invalid(
        "the request has a key already; remove it and name the intent, or send it without this \
         client",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn key() -> IssuedKey {
        let first_sent = UNIX_EPOCH + Duration::from_millis(784_111_777_900);
        IssuedKey::kept("k-1", first_sent, None)
    }

    fn headers(carrier: &Carrier) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let placed = carrier.place(&key(), &Bytes::new()).unwrap();
        placed.apply(&mut headers);
        assert!(
            carrier.check(&headers, &Bytes::new()).is_err(),
            "a key is present"
        );
        headers
    }

    #[test]
    fn headers_carry_the_key_bare_quoted_or_with_its_date() {
        let name = HeaderName::from_static("idempotency-key");
        assert_eq!(headers(&Carrier::Header(name.clone()))[&name], "k-1");
        assert_eq!(
            headers(&Carrier::QuotedHeader(name.clone()))[&name],
            "\"k-1\""
        );
        let date = HeaderName::from_static("first-sent");
        let pair = Carrier::HeaderPair {
            id: name.clone(),
            first_sent: date.clone(),
        };
        let headers = headers(&pair);
        assert_eq!(headers[&name], "k-1");
        assert_eq!(headers[&date], "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn a_date_that_no_header_carries_is_an_error() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(http_date(at(253_402_300_799)).is_ok());
        assert!(http_date(at(253_402_300_800)).is_err());
        assert!(http_date(UNIX_EPOCH - Duration::from_secs(1)).is_err());
    }

    #[test]
    fn a_body_with_the_key_has_its_own_length() {
        let carrier = Carrier::Member("/key".to_owned());
        let body = Bytes::from_static(b"{}");
        let mut headers = HeaderMap::from_iter([(CONTENT_LENGTH, 2.into())]);
        carrier.check(&headers, &body).unwrap();
        let placed = carrier.place(&key(), &body).unwrap();
        placed.apply(&mut headers);
        assert_eq!(placed.body.unwrap(), r#"{"key":"k-1"}"#);
        assert_eq!(headers[CONTENT_LENGTH], "13");
        for (name, value) in [
            ("content-encoding", "gzip"),
            ("content-digest", "sha-256=:x:"),
        ] {
            let mut headers = headers.clone();
            headers.insert(name, HeaderValue::from_static(value));
            assert!(carrier.check(&headers, &body).is_err(), "{name}");
        }
    }
}
