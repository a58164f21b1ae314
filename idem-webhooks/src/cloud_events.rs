//! [`CloudEvents`]: identity by `source` and `id`, in the three modes of the HTTP binding, and the
//! handshake of its webhooks.

use std::borrow::Cow;
use std::num::NonZeroU32;

use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use idem_core::json::RawJson;
use idem_core::{Bytes, Fingerprint};
use percent_encoding::percent_decode_str;

use crate::Rejection;
use crate::event_id::fields;
use crate::identity::Identity;
use crate::received::Permission;
use crate::signature::only;

const ID: HeaderName = HeaderName::from_static("ce-id");
const SOURCE: HeaderName = HeaderName::from_static("ce-source");
const TYPE: HeaderName = HeaderName::from_static("ce-type");
const REQUEST_ORIGIN: HeaderName = HeaderName::from_static("webhook-request-origin");

/// The most events of a batch.
const MAX_EVENTS: usize = 10_000;

/// The rules of a receiver of [CloudEvents](https://cloudevents.io).
///
/// An event is known by its `source` and `id`, in each of the [HTTP
/// binding](https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/http-protocol-binding.md)'s
/// modes:
///
/// | mode | content type | identity | compared |
/// | --- | --- | --- | --- |
/// | binary | any other | `ce-source` and `ce-id`, percent-decoded | the bytes of the body |
/// | structured | `application/cloudevents+json` | `source` and `id` | `type`, `data` and `data_base64` |
/// | batch | `application/cloudevents-batch+json` | those of each event | the same, for each event |
///
/// A batch is many events with a record each. The receiver handles them one after the other, in the
/// order of the batch, and answers with a 2xx only if all are done; after any other answer the
/// sender sends the batch again, and the events that are done are duplicates then.
///
/// A batch of more than 10,000 events is refused as unreadable: of the shortest ones, each costs a
/// hundred times its size.
///
/// It also answers the [handshake](https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md#4-abuse-protection)
/// by which a sender asks for permission: an `OPTIONS` request, which nobody signs and which proves
/// nothing. Without permitted origins the answer is 405.
#[derive(Debug, Clone, Default)]
pub struct CloudEvents {
    origins: Option<Vec<String>>,
    rate: Option<NonZeroU32>,
}

/// One event, or the events of a batch.
pub(crate) enum Events {
    One(Bytes, Result<Identity, Rejection>),
    Batch(Vec<(Bytes, Result<Identity, Rejection>)>),
}

impl Events {
    /// Identifies the elements of an array in the body.
    pub(crate) fn batch(
        body: &Bytes,
        array: Option<RawJson<'_>>,
        identify: impl Fn(&[u8]) -> Result<Identity, Rejection>,
    ) -> Result<Self, Rejection> {
        let array = array.filter(|array| array.bytes().starts_with(b"["));
        let array = array.ok_or(Rejection::Malformed)?;
        if array.elements().nth(MAX_EVENTS).is_some() {
            return Err(Rejection::Malformed);
        }
        let events = array.elements();
        let events = events.map(|event| (body.slice_ref(event.bytes()), identify(event.bytes())));
        Ok(Self::Batch(events.collect()))
    }
}

impl CloudEvents {
    /// Creates rules that permit no origin.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origins: Some(Vec::new()),
            rate: None,
        }
    }

    /// Permits this sender, by the DNS name that it states, such as `eventemitter.example.com`.
    #[must_use]
    pub fn with_allowed_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.get_or_insert_default().push(origin.into());
        self
    }

    /// Permits every sender that asks.
    #[must_use]
    pub fn with_any_origin(mut self) -> Self {
        self.origins = None;
        self
    }

    /// Sets how many requests per minute a permitted sender may send. Default: no limit.
    #[must_use]
    pub fn with_allowed_rate(mut self, per_minute: NonZeroU32) -> Self {
        self.rate = Some(per_minute);
        self
    }

    /// Answers the handshake.
    pub(crate) fn permit(&self, headers: &HeaderMap) -> Result<Permission, Rejection> {
        let origin = only(headers, &REQUEST_ORIGIN).ok().flatten();
        let is_allowed = |origin: &&str| {
            let names = self.origins.as_ref();
            names.is_none_or(|names| names.iter().any(|name| name.eq_ignore_ascii_case(origin)))
        };
        let origin = origin.filter(|origin| !origin.is_empty());
        let origin = origin.filter(is_allowed).map(HeaderValue::from_str);
        let Some(Ok(origin)) = origin else {
            return Err(Rejection::MethodNotAllowed);
        };
        let rate = self.rate.map(|rate| HeaderValue::from(rate.get()));
        Ok(Permission {
            origin,
            rate: rate.unwrap_or(HeaderValue::from_static("*")),
        })
    }

    /// Identifies the events of a delivery whose signature was valid.
    pub(crate) fn identify(request: &Request<Bytes>) -> Result<Events, Rejection> {
        let body = request.body();
        match Mode::of(request.headers())? {
            Mode::Binary => Ok(Events::One(body.clone(), binary(request.headers(), body))),
            Mode::Structured => Ok(Events::One(body.clone(), structured(body))),
            Mode::Batch => Events::batch(body, RawJson::read(body), structured),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Binary,
    Structured,
    Batch,
}

impl Mode {
    fn of(headers: &HeaderMap) -> Result<Self, Rejection> {
        let kind = only(headers, &header::CONTENT_TYPE).map_err(|()| Rejection::Malformed)?;
        let kind = kind.unwrap_or_default().split(';').next();
        let kind = kind.unwrap_or_default().trim().to_ascii_lowercase();
        match kind.strip_prefix("application/cloudevents") {
            None => Ok(Self::Binary),
            Some("+json") => Ok(Self::Structured),
            Some("-batch+json") => Ok(Self::Batch),
            Some(_) => Err(Rejection::UnsupportedFormat),
        }
    }
}

fn binary(headers: &HeaderMap, body: &[u8]) -> Result<Identity, Rejection> {
    let attribute = |name| match only(headers, name) {
        Ok(None) => Ok(None),
        Ok(Some(value)) => decode(value).ok_or(Rejection::Malformed).map(Some),
        Err(()) => Err(Rejection::Malformed),
    };
    Ok(Identity {
        id: id(attribute(&SOURCE)?, attribute(&ID)?)?,
        topic: attribute(&TYPE)?,
        fingerprint: Fingerprint::raw(body),
    })
}

fn structured(event: &[u8]) -> Result<Identity, Rejection> {
    let json = RawJson::read(event).ok_or(Rejection::Malformed)?;
    let attribute = |name| {
        let found = json.member(name).map_err(|_| Rejection::Malformed)?;
        let text = found.and_then(RawJson::as_str);
        Ok(text.map(Cow::into_owned))
    };
    Ok(Identity {
        id: id(attribute("source")?, attribute("id")?)?,
        topic: attribute("type")?,
        fingerprint: fields(event, &["/type", "/data", "/data_base64"])?,
    })
}

fn id(source: Option<String>, id: Option<String>) -> Result<Vec<String>, Rejection> {
    let parts = [source, id].map(|part| part.filter(|part| !part.trim().is_empty()));
    match parts {
        [Some(source), Some(id)] => Ok(vec![source, id]),
        _ => Err(Rejection::NoId),
    }
}

/// Decodes the value of a `ce-` header: first quoted strings, then one round of percent-decoding.
/// Bytes that are not UTF-8 are an error.
fn decode(value: &str) -> Option<String> {
    let value = unquoted(value)?;
    let decoded = percent_decode_str(&value).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// Removes the quotes of a quoted string (RFC 9110, 5.6.4), which earlier versions of the binding
/// allowed.
fn unquoted(value: &str) -> Option<Cow<'_, str>> {
    let Some(quoted) = value.strip_prefix('"') else {
        return Some(value.into());
    };
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '\\' => text.push(characters.next()?),
            '"' => break,
            other => text.push(other),
        }
    }
    characters.as_str().is_empty().then_some(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_headers_are_decoded_once() {
        let euro = "Euro%20%E2%82%AC%20%F0%9F%98%80";
        assert_eq!(decode(euro).unwrap(), "Euro € 😀");
        assert_eq!(decode("%e2%82%ac%41").unwrap(), "€A");
        assert_eq!(decode("a%2520b").unwrap(), "a%20b");
        assert_eq!(decode(r#""a \"b\" %20""#).unwrap(), "a \"b\"  ");
        for bad in ["%C0%A0", r#""a"#, r#""a" b"#, r#""a\"#] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
