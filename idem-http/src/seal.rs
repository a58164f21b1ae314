//! The fate of a handler's response: stored, marked as not stored, or passed through.

use bytes::Bytes;
use http::header::CACHE_CONTROL;
use http::response::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as HttpBody;
use idem_core::backend::check;
use idem_core::{ErrorPolicy, Limits, Policy, Response as Stored};

use crate::body::Collected;
use crate::{Body, HttpPolicy, NotStored, media};

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
}

impl<'a> Judge<'a> {
    pub(crate) fn new(http: &'a HttpPolicy, engine: &Policy, limits: Limits) -> Self {
        let own = engine.max_result_bytes().unwrap_or(usize::MAX);
        Self {
            http,
            records_errors: engine.on_error() == ErrorPolicy::Record,
            limits: limits.with_max_result_bytes(limits.max_result_bytes.min(own)),
        }
    }

    /// Decides about a response, and reads the body of one to store.
    pub(crate) async fn judge<B: HttpBody<Data = Bytes>>(
        &self,
        response: Response<B>,
    ) -> Judged<B> {
        let (parts, body) = response.into_parts();
        if passes_through(&parts) {
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
                let stored = self.stored(&parts, body.read_bytes());
                Judged::StoredResult(stored, Response::from_parts(parts, body))
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

    /// Returns the stored form; the marker if the headers make it too large.
    fn stored(&self, parts: &Parts, body: Bytes) -> Stored {
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
        || media::is_streamed(&media::essence(&parts.headers))
}

fn is_no_store(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CACHE_CONTROL).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let mut directives = texts.flat_map(|text| text.split(','));
    directives.any(|directive| directive.trim().eq_ignore_ascii_case("no-store"))
}
