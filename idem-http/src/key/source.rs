//! [`KeySource`]: where a request carries its key.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use http::request::Parts;
use http::{HeaderMap, HeaderName};
use idem_core::json::RawJson;

use crate::hook::{FromParts, Hook};
use crate::pointer::Pointer;
use crate::{FirstSent, IdempotencyKey, KeyError, KeyForm, KeyedRequest, media};

/// Where a request carries its key: in a header, in a member of its JSON body, in the query, in a
/// form, or in several of these places.
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
/// * an object there has a member whose text `serde_json::Value` takes for the whole object;
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
    Query(String),
    Form(String),
    Any(Vec<Place>),
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

    /// Takes the key from this parameter of the query, after percent-decoding. The parameter twice is
    /// refused.
    #[must_use]
    pub fn query(name: &str) -> Self {
        Self::at(Place::Query(name.to_owned()))
    }

    /// Takes the key from this field of a form, `application/x-www-form-urlencoded`, after decoding.
    /// The field twice is refused.
    #[must_use]
    pub fn form(name: &str) -> Self {
        Self::at(Place::Form(name.to_owned()))
    }

    /// Also looks in the places of the other source, whose time of the first attempt does not count.
    /// A request that has different keys in two places is refused.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        let (mut places, others) = (self.place.all(), other.place.all());
        places.extend(others);
        self.place = Place::Any(places);
        self
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
        self.place.is_in_body()
    }

    /// Returns whether a form may have the key.
    pub(crate) fn reads_forms(&self) -> bool {
        match &self.place {
            Place::Any(places) => places.iter().any(|place| matches!(place, Place::Form(_))),
            place => matches!(place, Place::Form(_)),
        }
    }

    /// Tells a client where the key belongs.
    pub(crate) fn describe(&self) -> String {
        self.place.describe()
    }

    /// Finds the key in the head of a request whose body has none.
    pub(crate) fn in_head(&self, parts: &Parts, form: KeyForm) -> Result<Option<Found>, KeyError> {
        match self.is_in_body() {
            true => Ok(None),
            false => self.timed(&parts.headers, self.place.find(parts, None, b"", form)?),
        }
    }

    /// Finds the key in the request, whose body is this document.
    pub(crate) fn in_request(
        &self,
        request: &KeyedRequest,
        document: Option<RawJson<'_>>,
        form: KeyForm,
    ) -> Result<Option<Found>, KeyError> {
        let parts = request.parts();
        let found = self.place.find(parts, document, request.body(), form)?;
        self.timed(&parts.headers, found)
    }

    /// Adds the time of the first attempt.
    fn timed(&self, headers: &HeaderMap, found: Option<Found>) -> Result<Option<Found>, KeyError> {
        let Some(first_sent) = &self.first_sent else {
            return Ok(found);
        };
        match (found, first_sent.read(headers)?) {
            (None, None) => Ok(None),
            (Some(found), None) if first_sent.is_optional => Ok(Some(found)),
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

impl Place {
    /// Returns the single places.
    fn all(self) -> Vec<Self> {
        match self {
            Self::Any(places) => places,
            place => vec![place],
        }
    }

    fn is_in_body(&self) -> bool {
        match self {
            Self::Header(_) | Self::Query(_) => false,
            Self::Member(_) | Self::Form(_) | Self::Both { .. } => true,
            Self::Any(places) => places.iter().any(Self::is_in_body),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Header(name) => format!("send the header `{name}` with"),
            Self::Query(name) => format!("send the parameter `{name}` in the query with"),
            Self::Form(name) => format!("send the field `{name}` of the form with"),
            Self::Member(pointer)
            | Self::Both {
                member: pointer, ..
            } => format!("send the member `{pointer}` of the body with"),
            Self::Any(places) => places.first().map(Self::describe).unwrap_or_default(),
        }
    }

    /// Finds the key in a request with this body, which is this document.
    fn find(
        &self,
        parts: &Parts,
        document: Option<RawJson<'_>>,
        body: &[u8],
        form: KeyForm,
    ) -> Result<Option<Found>, KeyError> {
        match self {
            Self::Header(name) => from_header(&parts.headers, name, form),
            Self::Member(pointer) => from_member(document, pointer),
            Self::Query(name) => from_pairs(parts.uri.query().unwrap_or_default().as_bytes(), name),
            Self::Form(name) if media::is_form(&parts.headers) => from_pairs(body, name),
            Self::Form(_) => Ok(None),
            Self::Both {
                header,
                member,
                counts,
            } => {
                let found = from_member(document, member)?;
                let of_header = || from_header(&parts.headers, header, form);
                if counts(parts) && key_of(&found) != key_of(&of_header()?) {
                    return Err(KeyError::Different);
                }
                Ok(found)
            }
            Self::Any(places) => {
                let mut first = None;
                for place in places {
                    let found = place.find(parts, document, body, form)?;
                    if found.is_none() {
                        continue;
                    }
                    if first.is_some() && key_of(&first) != key_of(&found) {
                        return Err(KeyError::Different);
                    }
                    first = found;
                }
                Ok(first)
            }
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
        Some(key) if !key.is_null() => from_text(key.as_str().ok_or(KeyError::NotText)?),
        _ => Ok(None),
    }
}

/// Finds the key among the pairs of a query or a form.
fn from_pairs(pairs: &[u8], name: &str) -> Result<Option<Found>, KeyError> {
    let pairs = form_urlencoded::parse(pairs);
    let mut values = pairs.filter_map(|(found, value)| (found == name).then_some(value));
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => from_text(value),
        (Some(_), Some(_)) => Err(KeyError::Repeated),
    }
}

fn from_text(sent: Cow<'_, str>) -> Result<Option<Found>, KeyError> {
    Ok(Some(Found {
        key: IdempotencyKey::from_text(&sent)?,
        sent: sent.into_owned(),
        first_sent: None,
    }))
}
