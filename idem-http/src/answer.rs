//! Responses for callers that do not get a handler's own response.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Body as HttpBody;
use idem_core::{BoxError, Error, ErrorKind, Failed, Failure, Response as Stored, Timestamp};

use crate::guard::{self, Guard};
use crate::media::{self, Flow};
use crate::refusal::Problem;
use crate::{Body, HttpPolicy, KeyedRequest, ProblemType, ReplayedHeaders, json, json_rpc, seal};

/// The `Retry-After` while the store is unavailable.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Returns the stored response, or the problem that replaces it.
pub(crate) async fn replay<B: HttpBody<Data = Bytes>>(
    guard: &Guard,
    stored: Stored,
    sealed_at: Timestamp,
    request: Option<KeyedRequest>,
) -> Response<Body<B>> {
    let policy = &guard.policy;
    if guard.is_expired(sealed_at, guard.engine.retention()) {
        return guard::expired(policy).into_response(policy, request.as_ref());
    }
    let problem = if seal::is_marker(&stored) {
        not_stored()
    } else {
        match replayed(stored) {
            Some(response) => return adjusted(policy, response, request, sealed_at).await,
            None => unreadable(&Error::corrupt(
                "a stored response has no HTTP status; if it is encrypted, this process lacks \
                 `Protected`",
            )),
        }
    };
    let mut response = problem.into_response(policy, request.as_ref());
    let sent = request.as_ref().and_then(KeyedRequest::key);
    policy
        .markers
        .mark_replayed(response.headers_mut(), sent, sealed_at);
    response
}

/// Returns the replay for this request.
async fn adjusted<B: HttpBody<Data = Bytes>>(
    policy: &HttpPolicy,
    mut response: Response<Bytes>,
    request: Option<KeyedRequest>,
    sealed_at: Timestamp,
) -> Response<Body<B>> {
    let sent = request.as_ref().and_then(KeyedRequest::key);
    let sent = sent.map(str::to_owned);
    if let Some(call) = request.as_ref().and_then(KeyedRequest::call) {
        let body = match media::flow(&media::essence(response.headers())) {
            Flow::Events | Flow::Stream => Some(json_rpc::with_id(response.body(), call.id())),
            _ => json::with_member(response.body(), "/id", call.id()),
        };
        let body = body.unwrap_or_else(|| response.body().clone());
        *response.body_mut() = body;
    }
    if let (Some(hook), Some(request)) = (&policy.replay_hook, request) {
        response = hook(request, response).await;
    }
    let headers = response.headers_mut();
    policy
        .markers
        .mark_replayed(headers, sent.as_deref(), sealed_at);
    response.map(Body::from)
}

/// Returns the stored response.
fn replayed(stored: Stored) -> Option<Response<Bytes>> {
    let (status, headers, body) = stored.into_parts();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).ok()?;
    *response.headers_mut() = ReplayedHeaders::replayed(headers);
    Some(response)
}

/// Returns a stored response as one of HTTP, for a handler that has committed it with
/// [`Work::commit_response`](idem_core::Work::commit_response); `None` if it has no HTTP status.
#[must_use]
pub fn to_http<B: From<Bytes>>(stored: Stored) -> Option<Response<B>> {
    Some(replayed(stored)?.map(B::from))
}

/// Returns the stored response without marking it as replayed.
pub(crate) fn from_stored<B: HttpBody<Data = Bytes>>(stored: Stored) -> Option<Response<Body<B>>> {
    Some(replayed(stored)?.map(Body::from))
}

/// Returns the response for a key whose record is a final failure.
pub(crate) fn failed<B: HttpBody<Data = Bytes>>(
    guard: &Guard,
    failed: &Failed,
    request: Option<&KeyedRequest>,
) -> Response<Body<B>> {
    let policy = &guard.policy;
    if guard.is_expired(failed.sealed_at, guard.engine.failure_retention()) {
        return guard::expired(policy).into_response(policy, request);
    }
    let problem = match failed.failure.code() {
        Failure::NOT_STORED => not_stored(),
        _ => Problem::new(
            ProblemType::OutcomeUnknown,
            "A request with this key was begun and did not end well, and it must not be handled again. Find out \
             what became of it before sending it with another key.",
        ),
    };
    let mut response = problem.into_response(policy, request);
    let sent = request.and_then(KeyedRequest::key);
    policy
        .markers
        .mark_replayed(response.headers_mut(), sent, failed.sealed_at);
    response
}

pub(crate) fn not_stored() -> Problem {
    Problem::new(
        ProblemType::ResponseNotStored,
        "A request with this key was handled, and its response was not stored. It is not handled again.",
    )
}

pub(crate) fn in_flight(retry_after: Duration) -> Problem {
    Problem::new(
        ProblemType::RequestInFlight,
        "A request with this key is being processed. Send it again later, unchanged and with the same key.",
    )
    .with_retry_after(retry_after)
}

pub(crate) fn reused() -> Problem {
    Problem::new(
        ProblemType::KeyReused,
        "This key was used for a different request. Nothing was done; a new request needs a new key.",
    )
}

/// Returns the problem of a key whose record exists and cannot be read.
pub(crate) fn unreadable(error: &Error) -> Problem {
    tracing::error!(
        %error,
        "a request with an idempotency key was refused: what became of the first one cannot be read"
    );
    Problem::new(
        ProblemType::OutcomeUnknown,
        "A request with this key was begun, and what became of it cannot be read. Send it again unchanged, with the \
         same key, once the server is repaired. Find out what became of it before sending it with another key.",
    )
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

/// Returns the problem of a transaction that may have been committed.
pub(crate) fn unknown(error: &Error) -> Problem {
    tracing::error!(%error, "nobody knows whether the transaction of a request was committed");
    Problem::new(
        ProblemType::OutcomeUnknown,
        "Whether this request was handled is not known. Send it again later, unchanged and with the same key.",
    )
    .with_status(StatusCode::SERVICE_UNAVAILABLE)
    .with_retry_after(STORE_PAUSE)
}

/// Returns the problem of a transaction that was rolled back.
pub(crate) fn rolled_back(error: &BoxError, is_retryable: bool) -> Problem {
    if !is_retryable {
        return Problem::misconfigured(error);
    }
    tracing::warn!(%error, "a request with an idempotency key was rolled back as often as its policy permits");
    let detail = "This request was not handled. Send it again later, with the same key.";
    Problem::new(ProblemType::StoreUnavailable, detail).with_retry_after(STORE_PAUSE)
}

pub(crate) fn store_failed(error: &Error) -> Problem {
    if is_contended(error) {
        return in_flight(STORE_PAUSE);
    }
    if error.kind() == ErrorKind::Corrupt {
        return unreadable(error);
    }
    if !is_unreachable(error) {
        return Problem::misconfigured(error);
    }
    tracing::warn!(
        %error,
        kind = ?error.kind(),
        "a request with an idempotency key was refused: the store is out of reach"
    );
    let detail = "This request was not handled. Send it again later, with the same key.";
    Problem::new(ProblemType::StoreUnavailable, detail).with_retry_after(STORE_PAUSE)
}
