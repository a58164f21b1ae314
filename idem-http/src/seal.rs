//! The fate of a handler's response: stored, marked as not stored, or passed through.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body as HttpBody;
use idem_core::backend::check;
use idem_core::json::RawJson;
use idem_core::{ErrorPolicy, Limits, Policy, Response as Stored};

use crate::body::Collected;
use crate::json_rpc::answer_in;
use crate::{Body, Call, HttpPolicy, NotStored, media};

/// The one header of a record whose response was not stored. No response has a header of this name.
const MARKER: &str = ":idem-http";

/// A response, and the decision about it.
pub(crate) enum Judged<B: HttpBody<Data = Bytes>> {
    /// Store this for later callers.
    StoredResult(Stored, Response<Body<B>>),
    /// The key is free again.
    Released(Response<Body<B>>),
}

/// The rules that decide about a response.
pub(crate) struct Judge<'a> {
    http: &'a HttpPolicy,
    records_errors: bool,
    limits: Limits,
    /// The JSON-RPC call, on a route with envelopes.
    call: Option<&'a Call>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(
        http: &'a HttpPolicy,
        engine: &Policy,
        limits: Limits,
        call: Option<&'a Call>,
    ) -> Self {
        let own = engine.max_result_bytes().unwrap_or(usize::MAX);
        Self {
            http,
            records_errors: engine.on_error() == ErrorPolicy::Record,
            limits: limits.with_max_result_bytes(limits.max_result_bytes.min(own)),
            call,
        }
    }

    /// Decides about a response, and reads the body of one to store.
    pub(crate) async fn judge<B: HttpBody<Data = Bytes>>(
        &self,
        response: Response<B>,
    ) -> Judged<B> {
        let (parts, body) = response.into_parts();
        let is_stream = media::is_streamed(&media::essence(&parts.headers));
        let events = self.call.filter(|_| is_events(&parts.headers));
        if passes_through(&parts) || (is_stream && events.is_none()) {
            let response = Response::from_parts(parts, Body::new(body));
            return if self.records_errors {
                Judged::StoredResult(marker(), response)
            } else {
                Judged::Released(response)
            };
        }
        let is_kept = self.http.kept.contains(parts.status) || self.records_errors;
        if !is_kept {
            return Judged::Released(Response::from_parts(parts, Body::new(body)));
        }
        match Body::new(body).collect(self.max_body_bytes()).await {
            Collected::Whole(body) => {
                let mut answer = Response::new(body.read_bytes());
                *answer.status_mut() = parts.status;
                answer.headers_mut().clone_from(&parts.headers);
                let stored = match events {
                    Some(call) => answer_of(call, answer),
                    None => Some(answer),
                };
                let stored = stored.filter(|answer| self.is_outcome(answer));
                let response = Response::from_parts(parts, body);
                match stored {
                    Some(answer) => Judged::StoredResult(self.stored(answer), response),
                    None if self.records_errors => Judged::StoredResult(marker(), response),
                    None => Judged::Released(response),
                }
            }
            Collected::Over(body) => {
                Judged::StoredResult(marker(), Response::from_parts(parts, body))
            }
            Collected::Broken(body) => Judged::Released(Response::from_parts(parts, body)),
        }
    }

    fn max_body_bytes(&self) -> usize {
        self.http
            .max_response_bytes
            .min(self.limits.max_result_bytes)
    }

    /// Returns whether a whole answer ends the request.
    fn is_outcome(&self, answer: &Response<Bytes>) -> bool {
        let is_kept = self.http.kept_if.as_ref();
        let is_open = || self.call.is_some() && is_open(answer.body());
        self.records_errors || (is_kept.is_none_or(|is_kept| is_kept(answer)) && !is_open())
    }

    /// Returns the stored form; the marker if the headers make it too large.
    fn stored(&self, answer: Response<Bytes>) -> Stored {
        let (parts, body) = answer.into_parts();
        let mut stored = Stored::new(parts.status.as_u16(), body);
        for (name, value) in self.http.replayed.stored(&parts.headers) {
            stored = stored.with_header(name, value);
        }
        match check::response_fits(&stored, &self.limits) {
            Ok(_) => stored,
            Err(_) => marker(),
        }
    }
}

/// Returns the answer of a call in a stream of events, as JSON.
fn answer_of(call: &Call, mut answer: Response<Bytes>) -> Option<Response<Bytes>> {
    // A client decodes a stream of events in the same way (HTML, 9.2.6).
    let text = answer_in(&String::from_utf8_lossy(answer.body()), call.id())?;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    Some(answer.map(|_| text.into()))
}

/// Returns whether a JSON-RPC result is not the last: MCP's `resultType` says so.
fn is_open(body: &[u8]) -> bool {
    let kind = RawJson::read(body).map(|answer| answer.pointer("/result/resultType"));
    matches!(kind, Some(Ok(Some(kind))) if !kind.is_str("complete"))
}

fn marker() -> Stored {
    Stored::new(StatusCode::GONE.as_u16(), Bytes::new()).with_header(MARKER, "not stored")
}

/// Returns whether the record holds only the marker.
pub(crate) fn is_marker(stored: &Stored) -> bool {
    stored.headers().iter().any(|(name, _)| name == MARKER)
}

fn passes_through(parts: &Parts) -> bool {
    parts.status == StatusCode::SWITCHING_PROTOCOLS
        || parts.extensions.get::<NotStored>().is_some()
        || is_no_store(&parts.headers)
}

fn is_events(headers: &HeaderMap) -> bool {
    media::essence(headers) == "text/event-stream"
}

fn is_no_store(headers: &HeaderMap) -> bool {
    let mut directives = media::elements(headers, &CACHE_CONTROL);
    directives.any(|directive| directive.eq_ignore_ascii_case(b"no-store"))
}
