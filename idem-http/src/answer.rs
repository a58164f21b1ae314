//! Responses for callers that do not get a handler's own response.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use http_body::Body as HttpBody;
use idem_core::{Error, ErrorKind, Failed, Failure, Response as Stored, Timestamp};
use serde_json::Value;

use crate::date::http_date;
use crate::problem::Problem;
use crate::{
    Body, FIRST_ANSWERED, HttpPolicy, IDEMPOTENT_REPLAYED, ProblemType, ReplayedHeaders, seal,
};

/// The `Retry-After` while the store is unavailable.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Returns the stored response, or the problem that replaces it.
pub(crate) fn replay<B: HttpBody<Data = Bytes>>(
    stored: Stored,
    sealed_at: Timestamp,
    policy: &HttpPolicy,
) -> Response<Body<B>> {
    let mut response = if seal::is_marker(&stored) {
        not_stored().into_response(policy)
    } else {
        match from_stored(stored) {
            Some(response) => response,
            None => {
                let error = Error::corrupt("a stored response has no HTTP status");
                Problem::misconfigured(&error).into_response(policy)
            }
        }
    };
    mark_replayed(&mut response, sealed_at);
    response
}

/// Returns the stored response without marking it as replayed.
pub(crate) fn from_stored<B: HttpBody<Data = Bytes>>(stored: Stored) -> Option<Response<Body<B>>> {
    let (status, headers, body) = stored.into_parts();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).ok()?;
    *response.headers_mut() = ReplayedHeaders::replayed(headers);
    Some(response)
}

/// Returns the response for a key whose record is a final failure.
pub(crate) fn failed<B: HttpBody<Data = Bytes>>(
    failed: &Failed,
    policy: &HttpPolicy,
) -> Response<Body<B>> {
    let problem = match failed.failure.code() {
        Failure::NOT_STORED => not_stored(),
        _ => Problem::new(
            ProblemType::OutcomeUnknown,
            "A request with this key was begun and did not end well, and it must not be handled again. Find out \
             what became of it before sending it with another key.",
        ),
    };
    let mut response = problem.into_response(policy);
    mark_replayed(&mut response, failed.sealed_at);
    response
}

fn not_stored() -> Problem {
    Problem::new(
        ProblemType::ResponseNotStored,
        "A request with this key was handled, and its response was not stored. It is not handled again.",
    )
}

fn mark_replayed<B>(response: &mut Response<B>, sealed_at: Timestamp) {
    let headers = response.headers_mut();
    headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    if let Ok(date) = http_date(sealed_at).try_into() {
        headers.insert(FIRST_ANSWERED, date);
    }
}

pub(crate) fn in_flight(retry_after: Option<Duration>) -> Problem {
    Problem::new(
        ProblemType::RequestInFlight,
        "A request with this key is being processed. Send it again later, unchanged and with the same key.",
    )
    .with_retry_after(retry_after.unwrap_or_default())
}

pub(crate) fn reused(policy: &HttpPolicy, differences: Option<Value>) -> Problem {
    let problem = Problem::new(
        ProblemType::KeyReused,
        "This key was used for a different request. Nothing was done; a new request needs a new key.",
    )
    .with_status(policy.reuse_status);
    match differences {
        Some(patch) => problem.with_member("differences", patch),
        None => problem,
    }
}

/// Returns whether the store is unreachable, as opposed to misconfigured, or reachable with a
/// contended key.
pub(crate) fn is_unreachable(error: &Error) -> bool {
    error.is_retryable() && !is_contended(error)
}

/// Returns whether an open transaction holds the key, so another caller works on it.
fn is_contended(error: &Error) -> bool {
    error.kind() == ErrorKind::Contention
}

pub(crate) fn store_failed(error: &Error) -> Problem {
    if is_contended(error) {
        return in_flight(Some(STORE_PAUSE));
    }
    if !is_unreachable(error) {
        return Problem::misconfigured(error);
    }
    tracing::warn!(
        %error,
        kind = ?error.kind(),
        "a request with an idempotency key was refused: the store is out of reach"
    );
    let detail = "Nothing was done. Send the request again later, with the same key.";
    Problem::new(ProblemType::StoreUnavailable, detail).with_retry_after(STORE_PAUSE)
}
