//! [`EventId`]: where a delivery carries the id of its event.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};
use idem_core::json::RawJson;
use idem_core::{Bytes, Error, Fingerprint, Result};
use serde_json::Number;

use crate::Rejection;
use crate::cloud_events::Events;
use crate::identity::Identity;
use crate::signature::only;

/// Where a delivery carries the id and the topic of its event, and in which parts two deliveries of
/// one event must be equal.
///
/// ```
/// use idem_webhooks::{Compared, EventId, http::HeaderName};
///
/// let in_header = EventId::header(HeaderName::from_static("x-event-id"));
/// let in_body = EventId::pointer("/id")
///     .with_topic_pointer("/type")
///     .with_compared(Compared::fields(["/type", "/data"]));
/// ```
#[derive(Debug, Clone)]
pub struct EventId {
    parts: Vec<Source>,
    topic: Option<Source>,
    compared: Compared,
    events: Option<Cow<'static, str>>,
    otherwise: Option<Box<EventId>>,
}

#[derive(Debug, Clone)]
enum Source {
    Header(HeaderName),
    Pointer(Cow<'static, str>),
}

/// What two deliveries of one event must have in common. A delivery with a known id that differs in
/// it is a conflict, and is not handled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compared {
    /// All bytes of the body.
    Bytes,
    /// The JSON value of the body (RFC 8785): the order of members and white space do not count. A
    /// body without a canonical form, such as one with a lone surrogate, counts as it is written.
    Json,
    /// The JSON values at these pointers (RFC 6901), in the same way. Leave out what changes between
    /// deliveries.
    Fields(Vec<Cow<'static, str>>),
    /// Nothing: the id alone decides.
    Nothing,
}

impl Compared {
    /// Compares the JSON values at these pointers.
    #[must_use]
    pub fn fields<P: Into<Cow<'static, str>>>(pointers: impl IntoIterator<Item = P>) -> Self {
        Self::Fields(pointers.into_iter().map(Into::into).collect())
    }

    pub(crate) fn of(&self, body: &[u8]) -> Result<Fingerprint, Rejection> {
        match self {
            Self::Bytes => Ok(Fingerprint::raw(body)),
            Self::Nothing => Ok(Fingerprint::raw("")),
            Self::Json => canonical_or(Fingerprint::json(body), body, |_| body.to_vec()),
            Self::Fields(pointers) => fields(body, pointers),
        }
    }
}

impl EventId {
    /// Takes the id from this header. Compares bodies by their bytes.
    #[must_use]
    pub fn header(name: HeaderName) -> Self {
        Self::of(Source::Header(name), Compared::Bytes)
    }

    /// Takes the id from the JSON body, at this pointer (RFC 6901): a string or an integer.
    /// Compares bodies by their JSON values.
    #[must_use]
    pub fn pointer(pointer: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Source::Pointer(pointer.into()), Compared::Json)
    }

    fn of(source: Source, compared: Compared) -> Self {
        Self {
            parts: vec![source],
            topic: None,
            compared,
            events: None,
            otherwise: None,
        }
    }

    /// Adds a namespace, from this header: ids are unique only within it.
    #[must_use]
    pub fn within_header(mut self, name: HeaderName) -> Self {
        self.parts.insert(0, Source::Header(name));
        self
    }

    /// Adds a namespace, from the JSON body: ids are unique only within it.
    #[must_use]
    pub fn within_pointer(mut self, pointer: impl Into<Cow<'static, str>>) -> Self {
        self.parts.insert(0, Source::Pointer(pointer.into()));
        self
    }

    /// Reads the topic from this header.
    #[must_use]
    pub fn with_topic_header(mut self, name: HeaderName) -> Self {
        self.topic = Some(Source::Header(name));
        self
    }

    /// Reads the topic from the JSON body.
    #[must_use]
    pub fn with_topic_pointer(mut self, pointer: impl Into<Cow<'static, str>>) -> Self {
        self.topic = Some(Source::Pointer(pointer.into()));
        self
    }

    /// Sets what two deliveries of one event must have in common.
    #[must_use]
    pub fn with_compared(mut self, compared: Compared) -> Self {
        self.compared = compared;
        self
    }

    /// Says how to know the deliveries that lack this id. Give both a different number of namespaces:
    /// the ids of both are keys of one operation.
    #[must_use]
    pub fn or(mut self, otherwise: Self) -> Self {
        self.otherwise = Some(Box::new(otherwise));
        self
    }

    /// Says that a delivery has several events: the elements of the array at this pointer. Ids,
    /// topics and comparisons are about one of them. The receiver handles them as the events of a
    /// batch; of no event it has nothing to handle, and answers 200.
    #[must_use]
    pub fn with_events(mut self, pointer: impl Into<Cow<'static, str>>) -> Self {
        self.events = Some(pointer.into());
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if let Some(otherwise) = &self.otherwise {
            otherwise.check()?;
        }
        let sources = self.parts.iter().chain(&self.topic);
        let own = sources.filter_map(|source| match source {
            Source::Pointer(pointer) => Some(pointer),
            Source::Header(_) => None,
        });
        let compared = match &self.compared {
            Compared::Fields(pointers) if pointers.is_empty() => {
                return Err(Error::invalid_input("no fields are compared"));
            }
            Compared::Fields(pointers) => pointers.as_slice(),
            Compared::Bytes | Compared::Json | Compared::Nothing => &[],
        };
        let own = own.chain(&self.events);
        match own.chain(compared).find(|pointer| !is_pointer(pointer)) {
            None => Ok(()),
            Some(wrong) => Err(Error::invalid_input(format!(
                "{wrong:?} is not a JSON Pointer (RFC 6901)"
            ))),
        }
    }

    /// Identifies the events of a delivery whose signature was valid.
    pub(crate) fn events(&self, headers: &HeaderMap, body: &Bytes) -> Result<Events, Rejection> {
        let Some(pointer) = &self.events else {
            return Ok(Events::One(body.clone(), self.identify(headers, body)));
        };
        let found = RawJson::read(body)
            .ok_or(Rejection::Malformed)?
            .pointer(pointer);
        Events::batch(body, found.ok().flatten(), |event| {
            self.identify(headers, event)
        })
    }

    /// Identifies an event.
    fn identify(&self, headers: &HeaderMap, body: &[u8]) -> Result<Identity, Rejection> {
        let is_in_body = |source: &Source| matches!(source, Source::Pointer(_));
        let json = match self.parts.iter().chain(&self.topic).any(is_in_body) {
            true => Some(RawJson::read(body).ok_or(Rejection::Malformed)?),
            false => None,
        };
        let id = self.parts.iter().map(|part| {
            // A blank id is one that the sender forgot to fill in: all such events would be one.
            let id = part.read(headers, json).map_err(|()| Rejection::NoId)?;
            Ok(id.filter(|id| !id.trim().is_empty()))
        });
        let Some(id) = id.collect::<Result<Option<_>, _>>()? else {
            let otherwise = self.otherwise.as_ref().ok_or(Rejection::NoId)?;
            return otherwise.identify(headers, body);
        };
        let topic = self.topic.as_ref();
        let topic = topic.map_or(Ok(None), |source| source.read(headers, json));
        Ok(Identity {
            id,
            topic: topic.map_err(|()| Rejection::Malformed)?,
            fingerprint: self.compared.of(body)?,
        })
    }
}

impl Source {
    /// Reads the text; an error when readers may differ on it.
    fn read(&self, headers: &HeaderMap, json: Option<RawJson<'_>>) -> Result<Option<String>, ()> {
        match self {
            Self::Header(name) => Ok(only(headers, name)?.map(Into::into)),
            Self::Pointer(pointer) => {
                let found = json.map_or(Ok(None), |json| json.pointer(pointer));
                Ok(found.map_err(drop)?.and_then(text))
            }
        }
    }
}

/// Returns a string, or an integer in digits.
fn text(value: RawJson<'_>) -> Option<String> {
    let number = || {
        value
            .parse()
            .ok()
            .filter(|number: &Number| number.is_i64() || number.is_u64())
    };
    match value.as_str() {
        Some(text) => Some(text.into_owned()),
        None => number().map(|number| number.to_string()),
    }
}

/// Returns the fingerprint of the values at these pointers.
pub(crate) fn fields<P: AsRef<str>>(body: &[u8], pointers: &[P]) -> Result<Fingerprint, Rejection> {
    canonical_or(Fingerprint::fields(body, pointers), body, |document| {
        let mut texts = Vec::new();
        for pointer in pointers {
            let found = document.pointer(pointer.as_ref()).ok().flatten();
            // A value ends at its comma, and none is empty: no two lists have one text.
            texts.extend_from_slice(found.map(RawJson::bytes).unwrap_or_default());
            texts.push(b',');
        }
        texts
    })
}

/// Returns the fingerprint by value. JSON without a canonical form counts by these texts, as it is
/// written, unless readers may differ on it: an object has a name twice.
fn canonical_or(
    canonical: Result<Fingerprint>,
    body: &[u8],
    written: impl FnOnce(RawJson<'_>) -> Vec<u8>,
) -> Result<Fingerprint, Rejection> {
    canonical.or_else(|_| {
        let document = RawJson::read(body).filter(|document| !document.has_repeated_name());
        let document = document.ok_or(Rejection::Malformed)?;
        Ok(Fingerprint::raw(written(document)))
    })
}

fn is_pointer(text: &str) -> bool {
    let mut escapes = text.split('~').skip(1);
    (text.is_empty() || text.starts_with('/')) && escapes.all(|after| after.starts_with(['0', '1']))
}
