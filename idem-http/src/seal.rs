//! The fate of a handler's response: stored, marked as not stored, or passed through.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body as HttpBody;
use idem_core::backend::check;
use idem_core::json::{MemberError, RawJson};
use idem_core::{ErrorPolicy, Limits, Response as Stored};

use crate::body::Collected;
use crate::guard::Guard;
use crate::json_rpc::answer_in;
use crate::{Body, Call, HttpPolicy, media};

/// The one header of a record whose response was not stored. No response has a header of this name.
const MARKER: &str = ":idem-http";

/// In the extensions of a response, makes it pass through: the layer does not read or store it, and
/// the key is free again at once. With axum, answer `(Extension(NotStored), body)`.
///
/// Use it for streams that the layer does not recognize by their media type, and for responses that
/// must not be in the store. The layer recognizes `text/event-stream`, `application/x-ndjson`,
/// `application/ndjson`, `application/jsonl`, `application/json-seq`, `multipart/x-mixed-replace`
/// and `application/grpc…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NotStored;

/// A response, and the decision about it.
pub(crate) enum Judged<B: HttpBody<Data = Bytes>> {
    /// Store this for later callers.
    StoredResult(Stored, Response<Body<B>>),
    /// The key is free again.
    Released(Response<Body<B>>),
}

/// Why an answer is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unstored {
    /// The handler said so, with [`NotStored`].
    Marked,
    /// `Cache-Control: no-store`, where the policy respects it.
    NoStore,
    /// The connection becomes another protocol's.
    Upgrade,
    /// It is a stream.
    Stream,
    /// Its status is not one of those to store.
    Status,
    /// Its content does not end the request.
    Content,
    /// Its body broke off.
    Broken,
    /// It is over a limit.
    TooLarge,
}

impl Unstored {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Marked => "marked",
            Self::NoStore => "no-store",
            Self::Upgrade => "upgrade",
            Self::Stream => "stream",
            Self::Status => "status",
            Self::Content => "content",
            Self::Broken => "broken",
            Self::TooLarge => "too-large",
        }
    }

    /// Writes a line for the operator: a key that protects nothing must not be silent.
    fn log(self) {
        let reason = self.name();
        let text = "the answer to a request with an idempotency key is not stored";
        match self {
            Self::Status | Self::Content => tracing::debug!(reason, "{text}"),
            _ => tracing::info!(reason, "{text}"),
        }
    }
}

/// The rules that decide about a response.
pub(crate) struct Judge<'a> {
    guard: &'a Guard,
    http: &'a HttpPolicy,
    records_errors: bool,
    limits: Limits,
    /// The JSON-RPC call, on a route with envelopes.
    call: Option<&'a Call>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(guard: &'a Guard, call: Option<&'a Call>) -> Self {
        let limits = guard.idempotency.store().limits();
        let own = guard.engine.max_result_bytes().unwrap_or(usize::MAX);
        Self {
            guard,
            http: &guard.policy,
            records_errors: guard.engine.on_error() == ErrorPolicy::Record,
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
        let unstored = match self.passes_through(&parts) {
            None if is_stream && events.is_none() => Some(Unstored::Stream),
            passes => passes,
        };
        if let Some(why) = unstored {
            return self.unstored(Response::from_parts(parts, Body::new(body)), why);
        }
        if !self.http.kept.contains(parts.status) && !self.records_errors {
            let response = Response::from_parts(parts, Body::new(body));
            return self.unstored(response, Unstored::Status);
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
                let mut response = Response::from_parts(parts, body);
                let Some(answer) = stored else {
                    return self.unstored(response, Unstored::Content);
                };
                let stored = self.stored(answer).unwrap_or_else(|| {
                    self.report(&mut response, Unstored::TooLarge);
                    marker()
                });
                Judged::StoredResult(stored, response)
            }
            Collected::Over(body) => {
                let mut response = Response::from_parts(parts, body);
                self.report(&mut response, Unstored::TooLarge);
                Judged::StoredResult(marker(), response)
            }
            Collected::Broken(body) => {
                let mut response = Response::from_parts(parts, body);
                self.report(&mut response, Unstored::Broken);
                Judged::Released(response)
            }
        }
    }

    /// Logs, counts and marks an answer that is not stored.
    fn report<B: HttpBody<Data = Bytes>>(&self, response: &mut Response<Body<B>>, why: Unstored) {
        why.log();
        let Guard {
            idempotency, key, ..
        } = self.guard;
        idempotency.note_unstored(key, why.name());
        self.http.markers.mark_unstored(response.headers_mut(), why);
    }

    /// Decides about the key of an answer that is not stored.
    fn unstored<B: HttpBody<Data = Bytes>>(
        &self,
        mut response: Response<Body<B>>,
        why: Unstored,
    ) -> Judged<B> {
        self.report(&mut response, why);
        match self.records_errors {
            true => Judged::StoredResult(marker(), response),
            false => Judged::Released(response),
        }
    }

    fn passes_through(&self, parts: &Parts) -> Option<Unstored> {
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            return Some(Unstored::Upgrade);
        }
        if parts.extensions.get::<NotStored>().is_some() {
            return Some(Unstored::Marked);
        }
        (self.http.respects_no_store && is_no_store(&parts.headers)).then_some(Unstored::NoStore)
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

    /// Returns the stored form; `None` if the headers make it too large.
    fn stored(&self, answer: Response<Bytes>) -> Option<Stored> {
        let (parts, body) = answer.into_parts();
        let mut stored = Stored::new(parts.status.as_u16(), body);
        for (name, value) in self.http.replayed.stored(&parts.headers) {
            stored = stored.with_header(name, value);
        }
        let fits = check::response_fits(&stored, &self.limits).is_ok();
        fits.then_some(stored)
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

/// Returns whether a JSON-RPC answer is not the last: MCP's `resultType` says that the server waits
/// for the client, or the code that the call crashed (as a 5xx of REST) or was cancelled. A `task`
/// has begun, and a retry has to find the same one.
fn is_open(body: &[u8]) -> bool {
    let is_open = RawJson::read(body).map(|answer| {
        let (kind, code) = (
            answer.pointer("/result/resultType")?,
            answer.pointer("/error/code")?,
        );
        let is_kept = |kind: RawJson<'_>| kind.is_str("complete") || kind.is_str("task");
        let is_passing = |code: RawJson<'_>| matches!(code.bytes(), b"-32603" | b"-32800");
        Ok::<_, MemberError>(
            kind.is_some_and(|kind| !is_kept(kind)) || code.is_some_and(is_passing),
        )
    });
    matches!(is_open, Some(Ok(true)))
}

fn marker() -> Stored {
    Stored::new(StatusCode::GONE.as_u16(), Bytes::new()).with_header(MARKER, "not stored")
}

/// Returns whether the record holds only the marker.
pub(crate) fn is_marker(stored: &Stored) -> bool {
    stored.headers().iter().any(|(name, _)| name == MARKER)
}

fn is_events(headers: &HeaderMap) -> bool {
    media::essence(headers) == "text/event-stream"
}

fn is_no_store(headers: &HeaderMap) -> bool {
    let mut directives = media::elements(headers, &CACHE_CONTROL);
    directives.any(|directive| directive.eq_ignore_ascii_case(b"no-store"))
}
