//! The fate of a handler's response: stored, marked as not stored, or passed through.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body as HttpBody;
use idem_core::backend::check;
use idem_core::json::{MemberError, RawJson};
use idem_core::{ErrorPolicy, Limits, Response as Stored, Work};

use crate::body::Collected;
use crate::guard::Guard;
use crate::json_rpc::EventReader;
use crate::keyed_request::Message;
use crate::media::Flow;
use crate::stream::{Recorded, Stream, Tape};
use crate::{Body, Call, HttpPolicy, media};

/// The one header of a record whose response was not stored. No response has a header of this name.
const MARKER: &str = ":idem-http";

/// In the extensions of a response, makes it pass through: the layer does not read or store it, and
/// the key is free again at once. With axum, answer `(Extension(NotStored), body)`.
///
/// Use it for responses that must not be in the store, for streams without an end, and for streams
/// that the layer does not recognize by their media type. It recognizes `text/event-stream`,
/// `application/x-ndjson`, `application/ndjson`, `application/jsonl` and `application/json-seq`,
/// whose pieces it passes on at once and records beside. `multipart/x-mixed-replace` and
/// `application/grpc…` pass as if they were marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NotStored;

/// A response, and the decision about it.
pub(crate) enum Judged<B: HttpBody<Data = Bytes>> {
    /// Store this for later callers.
    StoredResult(Stored, Response<Body<B>>),
    /// The key is free again.
    Released(Response<Body<B>>),
    /// Send this at once, and record the stream.
    Streamed(Box<Stream<B>>, Response<Body<B>>),
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
    /// The request was not readable, so no handler has begun.
    Unread,
    /// It is a stream of a kind that is not recorded.
    Stream,
    /// It is a stream that ended without the answer of the call.
    Unfinished,
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
            Self::Unread => "unread",
            Self::Stream => "stream",
            Self::Unfinished => "unfinished",
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
            Self::Status | Self::Content | Self::Unread => tracing::debug!(reason, "{text}"),
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
    /// The request's body, if its type is JSON.
    json: Option<&'a Bytes>,
}

impl<'a> Judge<'a> {
    /// `headers` come from the request, and say whether its body is JSON.
    pub(crate) fn new(guard: &'a Guard, message: &'a Message, headers: &HeaderMap) -> Self {
        let is_json = media::is_json(headers, &media::essence(headers));
        let limits = guard.idempotency.store().limits();
        let own = guard.engine.max_result_bytes().unwrap_or(usize::MAX);
        Self {
            guard,
            http: &guard.policy,
            records_errors: guard.engine.on_error() == ErrorPolicy::Record,
            limits: limits.with_max_result_bytes(limits.max_result_bytes.min(own)),
            call: message.call.as_ref(),
            json: is_json.then_some(&message.body),
        }
    }

    /// Decides about a response, and reads the body of one to store.
    pub(crate) async fn judge<B: HttpBody<Data = Bytes>>(
        &self,
        response: Response<B>,
    ) -> Judged<B> {
        let (parts, body) = response.into_parts();
        let flow = media::flow(&media::essence(&parts.headers));
        let limit = self.max_body_bytes();
        let rules = self.http.json_rpc.as_ref();
        let answers = |call: &&Call| rules.is_none_or(|rules| !rules.streams(call));
        let tape = match (flow, self.call.filter(answers)) {
            (Flow::Events, Some(call)) => {
                Some(Tape::Answer(EventReader::new(call.id().clone(), limit)))
            }
            (Flow::Events, None) | (Flow::Stream, _) => Some(Tape::Whole(Vec::new(), limit)),
            _ => None,
        };
        let is_unrecorded = || tape.is_none() && flow != Flow::Whole;
        let unstored = self
            .passes_through(&parts)
            .or_else(|| is_unrecorded().then_some(Unstored::Stream));
        if let Some(why) = unstored {
            return self.unstored(Response::from_parts(parts, Body::new(body)), why);
        }
        if !self.http.kept.contains(parts.status) && !self.records_errors {
            let response = Response::from_parts(parts, Body::new(body));
            return self.unstored(response, Unstored::Status);
        }
        if let Some(tape) = tape {
            let mut head = Response::new(());
            *head.status_mut() = parts.status;
            head.headers_mut().clone_from(&parts.headers);
            if let Tape::Answer(_) = tape {
                let json = HeaderValue::from_static("application/json");
                head.headers_mut().insert(CONTENT_TYPE, json);
            }
            let (stream, body) = Stream::new(head, body, tape);
            return Judged::Streamed(Box::new(stream), Response::from_parts(parts, body));
        }
        match Body::new(body).collect(limit).await {
            Collected::Whole(body) => {
                let mut answer = Response::new(body.read_bytes());
                *answer.status_mut() = parts.status;
                answer.headers_mut().clone_from(&parts.headers);
                let mut response = Response::from_parts(parts, body);
                match self.kept(answer) {
                    Kept::Answer(stored) => Judged::StoredResult(stored, response),
                    Kept::Marker => {
                        self.report(&mut response, Unstored::TooLarge);
                        Judged::StoredResult(marker(), response)
                    }
                    Kept::Nothing => self.unstored(response, Unstored::Content),
                }
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

    /// Passes a stream on and records it. Of one that ended without its answer, the work may go on
    /// elsewhere, so its lease runs out.
    pub(crate) async fn record<B: HttpBody<Data = Bytes>>(
        &self,
        stream: &mut Stream<B>,
        work: &Work,
    ) -> Option<Stored> {
        let (stored, why) = match stream.record().await {
            Recorded::Answer(answer) => match self.kept(answer) {
                Kept::Answer(stored) => return Some(stored),
                Kept::Marker => (Some(marker()), Unstored::TooLarge),
                Kept::Nothing => (None, Unstored::Content),
            },
            Recorded::Over => (Some(marker()), Unstored::TooLarge),
            Recorded::Unfinished => (None, Unstored::Unfinished),
            Recorded::Broken => (None, Unstored::Broken),
        };
        if matches!(why, Unstored::Unfinished | Unstored::Broken) {
            work.let_expire();
        }
        self.note(why);
        stored
    }

    /// Logs, counts and marks an answer that is not stored.
    fn report<B: HttpBody<Data = Bytes>>(&self, response: &mut Response<Body<B>>, why: Unstored) {
        self.note(why);
        self.http.markers.mark_unstored(response.headers_mut(), why);
        response.extensions_mut().insert(why);
    }

    fn note(&self, why: Unstored) {
        why.log();
        let Guard {
            idempotency, key, ..
        } = self.guard;
        idempotency.note_unstored(key, why.name());
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
        if !self.records_errors && self.is_unread(parts.status) {
            return Some(Unstored::Unread);
        }
        (self.http.respects_no_store && is_no_store(&parts.headers)).then_some(Unstored::NoStore)
    }

    /// Returns whether a framework refused the request before a handler began: by its size or its
    /// type, or because its body is no JSON. A client that mends its request may then keep its key,
    /// which would be a conflict beside a stored answer. JSON of the wrong shape looks like a
    /// handler's own refusal, and is stored.
    fn is_unread(&self, status: StatusCode) -> bool {
        match status.as_u16() {
            413 | 415 => true,
            400 | 422 => self.json.is_some_and(|body| RawJson::read(body).is_none()),
            _ => false,
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

    /// Returns what is stored of a whole answer.
    fn kept(&self, answer: Response<Bytes>) -> Kept {
        if !self.is_outcome(&answer) {
            return Kept::Nothing;
        }
        let (parts, body) = answer.into_parts();
        let mut stored = Stored::new(parts.status.as_u16(), body);
        for (name, value) in self.http.replayed.stored(&parts.headers) {
            stored = stored.with_header(name, value);
        }
        match check::response_fits(&stored, &self.limits) {
            Ok(()) => Kept::Answer(stored),
            Err(_) => Kept::Marker,
        }
    }
}

/// What is stored of a whole answer.
enum Kept {
    Answer(Stored),
    /// Its headers make it too large.
    Marker,
    /// It does not end the request.
    Nothing,
}

/// Returns whether a JSON-RPC answer is not the last: MCP's `resultType` says that the server waits
/// for the client, or the code that the call crashed (as a 5xx of REST) or was cancelled. A `task`
/// has begun, and a retry has to find the same one.
fn is_open(body: &[u8]) -> bool {
    let is_open = RawJson::read(last_document(body)).map(|answer| {
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

/// Returns the last line with a document of a stream; the whole text, if it is none.
fn last_document(body: &[u8]) -> &[u8] {
    if RawJson::read(body).is_some() {
        return body;
    }
    let lines = body.split(|byte| matches!(byte, b'\r' | b'\n'));
    let texts = lines.map(|line| line.strip_prefix(b"data:").unwrap_or(line));
    let last = texts.rev().find(|text| RawJson::read(text).is_some());
    last.unwrap_or(body)
}

fn marker() -> Stored {
    Stored::new(StatusCode::GONE.as_u16(), Bytes::new()).with_header(MARKER, "not stored")
}

/// Returns whether the record holds only the marker.
pub(crate) fn is_marker(stored: &Stored) -> bool {
    stored.headers().iter().any(|(name, _)| name == MARKER)
}

fn is_no_store(headers: &HeaderMap) -> bool {
    let mut directives = media::elements(headers, &CACHE_CONTROL);
    directives.any(|directive| directive.eq_ignore_ascii_case(b"no-store"))
}
