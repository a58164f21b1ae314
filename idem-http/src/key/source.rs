//! [`KeySource`]: where a request carries its key.

use std::sync::Arc;
use std::time::SystemTime;

use http::request::Parts;
use http::{HeaderMap, HeaderName};
use idem_core::json::RawJson;

use crate::hook::{FromParts, Hook};
use crate::pointer::Pointer;
use crate::{FirstSent, IdempotencyKey, KeyError, KeyForm, KeyedRequest};

/// Where a request carries its key: in a header, in a member of its JSON body, or in both.
///
/// The layer finds a header before it reads the body, so requests without a key pass unread. For a
/// member it reads the body of every request of the route's methods, up to the route's limit, and
/// passes it on with the request.
///
/// The layer finds the member in every document that follows the grammar of JSON (RFC 8259),
/// whatever stands beside it: see [`RawJson`](idem_core::json::RawJson). It answers 400, and the
/// handler does not run, when
///
/// * the document has the member, or one on the way to it, twice, in whatever spelling;
/// * an array with elements stands where an object with the member belongs: `serde` reads a struct
///   from an array, too;
/// * the member is neither `null` nor a string of printable ASCII characters;
/// * the body is not JSON, and may hold a key in the eyes of another reader: the key is required,
///   the calls are JSON-RPC, the media type is JSON, the body has a content coding, or its first
///   character is `{` or `[`.
///
/// Any other body that is not JSON, such as a form or nothing but blanks, has no key.
#[derive(Debug, Clone)]
pub struct KeySource {
    place: Place,
    first_sent: Option<FirstSent>,
}

#[derive(Debug, Clone)]
enum Place {
    Header(HeaderName),
    Member(Pointer),
    Both {
        header: HeaderName,
        member: Pointer,
        counts: FromParts<bool>,
    },
}

/// The key of a request.
#[derive(Debug)]
pub(crate) struct Found {
    /// The key, as the client wrote it.
    pub(crate) sent: String,
    pub(crate) key: IdempotencyKey,
    pub(crate) first_sent: Option<SystemTime>,
}

impl KeySource {
    const fn at(place: Place) -> Self {
        Self {
            place,
            first_sent: None,
        }
    }

    /// Takes the key from this header.
    #[must_use]
    pub const fn header(name: HeaderName) -> Self {
        Self::at(Place::Header(name))
    }

    /// Takes the key from the member of the JSON body at this JSON Pointer (RFC 6901), such as
    /// `/params/arguments/meta/idempotency_key`.
    #[must_use]
    pub fn member(pointer: &str) -> Self {
        Self::at(Place::Member(Pointer::new(pointer)))
    }

    /// Takes the key from the member at `pointer`. In requests for which `counts` is true, such as
    /// those whose signature covers the header, the header has to carry the same key.
    #[must_use]
    pub fn member_and_header(
        pointer: &str,
        header: HeaderName,
        counts: impl Fn(&Parts) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::at(Place::Both {
            header,
            member: Pointer::new(pointer),
            counts: Hook(Arc::new(counts)),
        })
    }

    /// Requires the time of the first attempt with each key.
    #[must_use]
    pub fn with_first_sent(mut self, first_sent: FirstSent) -> Self {
        self.first_sent = Some(first_sent);
        self
    }

    pub(crate) fn first_sent(&self) -> Option<&FirstSent> {
        self.first_sent.as_ref()
    }

    /// Returns whether the key is in the body.
    pub(crate) fn is_in_body(&self) -> bool {
        !matches!(self.place, Place::Header(_))
    }

    /// Tells a client where the key belongs.
    pub(crate) fn describe(&self) -> String {
        match &self.place {
            Place::Header(name) => format!("send the header `{name}` with"),
            Place::Member(pointer)
            | Place::Both {
                member: pointer, ..
            } => {
                format!("send the member `{pointer}` of the body with")
            }
        }
    }

    /// Finds the key in the headers.
    pub(crate) fn in_head(
        &self,
        headers: &HeaderMap,
        form: KeyForm,
    ) -> Result<Option<Found>, KeyError> {
        match &self.place {
            Place::Header(name) => self.timed(headers, from_header(headers, name, form)?),
            Place::Member(_) | Place::Both { .. } => Ok(None),
        }
    }

    /// Finds the key in the request, whose body is this document.
    pub(crate) fn in_request(
        &self,
        request: &KeyedRequest,
        document: Option<RawJson<'_>>,
        form: KeyForm,
    ) -> Result<Option<Found>, KeyError> {
        let headers = &request.parts().headers;
        let found = match &self.place {
            Place::Header(name) => from_header(headers, name, form)?,
            Place::Member(pointer) => from_member(document, pointer)?,
            Place::Both {
                header,
                member,
                counts,
            } => {
                let found = from_member(document, member)?;
                let is_covered = counts(request.parts());
                if is_covered && key_of(&found) != key_of(&from_header(headers, header, form)?) {
                    return Err(KeyError::Different);
                }
                found
            }
        };
        self.timed(headers, found)
    }

    /// Adds the time of the first attempt.
    fn timed(&self, headers: &HeaderMap, found: Option<Found>) -> Result<Option<Found>, KeyError> {
        let Some(first_sent) = &self.first_sent else {
            return Ok(found);
        };
        match (found, first_sent.read(headers)?) {
            (None, None) => Ok(None),
            (Some(found), Some(time)) => {
                FirstSent::check(time, SystemTime::now())?;
                Ok(Some(Found {
                    first_sent: Some(time),
                    ..found
                }))
            }
            (Some(_), None) | (None, Some(_)) => Err(KeyError::Half),
        }
    }
}

fn key_of(found: &Option<Found>) -> Option<&IdempotencyKey> {
    found.as_ref().map(|found| &found.key)
}

fn from_header(
    headers: &HeaderMap,
    name: &HeaderName,
    form: KeyForm,
) -> Result<Option<Found>, KeyError> {
    let Some(key) = IdempotencyKey::from_headers(headers, name, form)? else {
        return Ok(None);
    };
    let sent = headers.get(name).and_then(|value| value.to_str().ok());
    Ok(Some(Found {
        sent: sent.unwrap_or_default().to_owned(),
        key,
        first_sent: None,
    }))
}

fn from_member(
    document: Option<RawJson<'_>>,
    pointer: &Pointer,
) -> Result<Option<Found>, KeyError> {
    let Some(document) = document else {
        return Ok(None);
    };
    match document.pointer(pointer.as_str())? {
        Some(key) if !key.is_null() => {
            let sent = key.as_str().ok_or(KeyError::NotText)?.into_owned();
            Ok(Some(Found {
                key: IdempotencyKey::from_text(&sent)?,
                sent,
                first_sent: None,
            }))
        }
        _ => Ok(None),
    }
}
