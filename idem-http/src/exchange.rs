//! One request with a key, from its body to its answer.

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use idem_core::{
    BoxError, Effect, Error, ErrorKind, Fingerprint, InFlight, Outcome, Response as Stored,
    RunError, Work,
};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tower_service::Service;
use tracing::{Instrument, Span};

use crate::guard::{Guard, Known};
use crate::seal::{Judge, Judged};
use crate::stream::Closed;
use crate::{
    Body, HttpPolicy, IdempotencyLayer, KeyedRequest, OnDisconnect, OnStoreError, answer, buffer,
    in_transaction, kept,
};

/// What an exchange tells its caller's future: from the call of the service on, a client that
/// disconnects ends nothing, where the policy says so; and a streamed answer goes out before the run
/// ends.
pub(crate) struct Begun<R: HttpBody<Data = Bytes>>(Arc<Notes<R>>);

/// An answer that streams, and the end of its client.
type Streamed<R> = (Response<Body<R>>, Closed);

struct Notes<R: HttpBody<Data = Bytes>> {
    on_disconnect: OnDisconnect,
    called: OnceLock<(Handle, Span)>,
    streamed: Mutex<Option<Streamed<R>>>,
}

impl<R: HttpBody<Data = Bytes>> Clone for Begun<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: HttpBody<Data = Bytes>> Begun<R> {
    pub(crate) fn new(on_disconnect: OnDisconnect) -> Self {
        Self(Arc::new(Notes {
            on_disconnect,
            called: OnceLock::new(),
            streamed: Mutex::default(),
        }))
    }

    /// Notes that the service is called now, on this runtime and in this span.
    pub(crate) fn note(&self) {
        if let Ok(runtime) = Handle::try_current() {
            // A second note would say the same.
            let _ = self.0.called.set((runtime, Span::current()));
        }
    }

    fn streamed(&self) -> MutexGuard<'_, Option<Streamed<R>>> {
        let streamed = self.0.streamed.lock();
        streamed.unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the answer that streams, if there is one.
    pub(crate) fn take_streamed(&self) -> Option<Streamed<R>> {
        self.streamed().take()
    }

    /// Runs the rest of an exchange whose client is gone, if the policy says so.
    pub(crate) fn finish(&self, rest: impl Future + Send + 'static) {
        if self.0.on_disconnect == OnDisconnect::Finish {
            self.spawn(rest);
        }
    }

    /// Runs the rest of an exchange whose answer streams; its client may end it, if the policy says
    /// so.
    pub(crate) fn stream(&self, rest: impl Future + Send + 'static, closed: Closed) {
        match self.0.on_disconnect {
            OnDisconnect::Finish => self.spawn(rest),
            OnDisconnect::Cancel => self.spawn(async move {
                tokio::select! {
                    _ = rest => {}
                    () = closed => {}
                }
            }),
        }
    }

    /// Runs a future in a task of its own, if the service was called.
    fn spawn(&self, rest: impl Future + Send + 'static) {
        if let Some((runtime, span)) = self.0.called.get() {
            let rest = async move { drop(rest.await) };
            runtime.spawn(rest.instrument(span.clone()));
        }
    }
}

/// What is known of a request before its body is read.
pub(crate) struct Rules {
    pub(crate) layer: Arc<IdempotencyLayer>,
    pub(crate) policy: Arc<HttpPolicy>,
    pub(crate) known: Option<Known>,
}

/// Reads the request and handles it.
///
/// A panic of the service reaches the caller, as it would without the layer.
pub(crate) async fn run<S, B, R>(
    service: S,
    request: Request<B>,
    rules: Rules,
    begun: Begun<R>,
) -> Result<Response<Body<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: HttpBody + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    let policy = &rules.policy;
    let (parts, body) = request.into_parts();
    let body = match buffer::read(&parts.headers, body, policy.max_request_bytes).await {
        Ok(body) => body,
        Err(problem) => {
            let mut request = KeyedRequest::new(parts, Bytes::new());
            request.message_mut().key = rules.known.map(|known| known.found.sent);
            return Ok(problem.into_response(policy, Some(&request)));
        }
    };
    let mut request = KeyedRequest::new(parts, body);
    match Guard::new(&rules.layer, policy, &mut request, rules.known) {
        Ok(Some(guard)) => match &rules.layer.transactions {
            Some(transactions) => {
                in_transaction::guarded(service, request, guard, &**transactions, begun).await
            }
            None => guarded(service, request, guard, begun).await,
        },
        Ok(None) => call(service, request.into_request().0).await,
        Err(problem) => Ok(problem.into_response(policy, Some(&request))),
    }
}

/// Handles a request with a key.
async fn guarded<S, B, R>(
    service: S,
    request: KeyedRequest,
    mut guard: Guard,
    begun: Begun<R>,
) -> Result<Response<Body<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: HttpBody + From<Bytes> + Send + 'static,
    B::Data: Send,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    let (request, fingerprint) = fingerprinted(&guard.policy, request).await;
    guard.document = kept::document(&guard.policy, &request.parts().headers, request.body());
    let guard = &guard;
    let (request, message) = request.into_request::<B>();
    let judge = Judge::new(guard, &message, request.headers());
    let mut call_once = Some((service, request));
    let (mut live, mut streaming) = (None, None);
    let (slot, stream_slot, call_slot) = (&mut live, &mut streaming, &mut call_once);
    let sent = message.key.clone();
    let first = |mut response: Response<Body<R>>| {
        let markers = &guard.policy.markers;
        markers.mark_first(response.headers_mut(), sent.as_deref());
        response
    };
    let (first, begun) = (&first, &begun);
    let work = |work: Work| async move {
        begun.note();
        let (mut service, mut request) = call_slot.take().ok_or(Unkept::Gone)?;
        request.extensions_mut().insert(work.clone());
        let handling = kept::beside(service.call(request), guard, fingerprint);
        let handled = handling.await;
        if let Some(committed) = work.committed() {
            *slot = in_transaction::committed(&judge, handled, committed).await;
            return Ok(committed.clone());
        }
        match judge.judge(handled.map_err(Unkept::Service)?).await {
            Judged::StoredResult(stored, response) => {
                *slot = Some(response);
                Ok(stored)
            }
            Judged::Released(response) => Err(Unkept::Response(response)),
            Judged::Streamed(stream, response) => {
                *begun.streamed() = Some((first(response), stream.closed()));
                let stream = stream_slot.insert(stream);
                judge.record(stream, &work).await.ok_or(Unkept::Streamed)
            }
        }
    };
    let engine = Arc::clone(&guard.engine);
    let running = guard
        .idempotency
        .run_response_under(engine, &guard.key, fingerprint, work);
    let ran: Ran<R, S::Error> = running.await;
    if let Some(stream) = streaming {
        stream.pass().await;
        // Its caller has it, unless all of it came at once.
        let response = begun.take_streamed().map(|(response, _)| response);
        return Ok(response.unwrap_or_else(|| Response::new(Bytes::new().into())));
    }
    let opens = matches!(&ran, Err(RunError::Store(error)) if opens(guard, error));
    if opens && let Some((service, request)) = call_once.take() {
        begun.note();
        tracing::warn!(
            "the store is out of reach: a request with an idempotency key is handled without it"
        );
        return call(service, request).await.map(first);
    }
    // The handler has the request, if it was called.
    let request = call_once.map(|(_, request)| KeyedRequest::of(request.into_parts().0, message));
    match ran {
        Err(RunError::NotStored { source, .. }) if source.kind() == ErrorKind::Misconfigured => {
            tracing::error!(error = %source, "an answer was not stored, and not sent");
            Ok(answer::not_stored().into_response(&guard.policy, request.as_ref()))
        }
        Ok(Outcome::Fresh(stored)) | Err(RunError::NotStored { value: stored, .. }) => {
            let response = live.or_else(|| answer::from_stored(stored));
            Ok(response.map_or_else(|| unexpected(guard, request.as_ref()), first))
        }
        Err(RunError::Work(Unkept::Response(response))) => Ok(first(response)),
        Ok(Outcome::Replayed { value, sealed_at }) => {
            Ok(answer::replay(guard, value, sealed_at, request).await)
        }
        Err(error) => guard.refuse(error, request.as_ref()).await,
    }
}

/// Larger bodies would hold up the other requests of the thread.
const LARGE_BYTES: usize = 64 << 10;

/// Returns the request and its fingerprint.
pub(crate) async fn fingerprinted(
    policy: &Arc<HttpPolicy>,
    request: KeyedRequest,
) -> (KeyedRequest, Fingerprint) {
    if request.body().len() <= LARGE_BYTES || Handle::try_current().is_err() {
        let fingerprint = policy.fingerprint.of(&request);
        return (request, fingerprint);
    }
    let (policy, span) = (Arc::clone(policy), Span::current());
    let computing = spawn_blocking(move || {
        let fingerprint = span.in_scope(|| policy.fingerprint.of(&request));
        (request, fingerprint)
    });
    match computing.await {
        Ok(computed) => computed,
        // A text of the recipe that panics does so for its caller.
        Err(error) => resume_unwind(error.into_panic()),
    }
}

/// The work's error for a response that does not use up the key.
pub(crate) enum Unkept<R: HttpBody<Data = Bytes>, E> {
    Response(Response<Body<R>>),
    /// It streams to its caller.
    Streamed,
    Service(E),
    /// The engine called the work twice, which it never does.
    Gone,
}

impl<R: HttpBody<Data = Bytes>, E> fmt::Display for Unkept<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response(response) => write!(f, "answered with {}", response.status()),
            Self::Streamed => f.write_str("streamed no final answer"),
            Self::Service(_) | Self::Gone => f.write_str("the service failed"),
        }
    }
}

type Ran<R, E> = Result<Outcome<Stored>, RunError<Unkept<R, E>, Stored>>;

impl Guard {
    /// The response for a caller that neither ran nor gets a stored response.
    pub(crate) async fn refuse<R, E>(
        &self,
        error: RunError<Unkept<R, E>, Stored>,
        request: Option<&KeyedRequest>,
    ) -> Result<Response<Body<R>>, E>
    where
        R: HttpBody<Data = Bytes> + Send,
        R::Error: Send,
        E: Send,
    {
        let problem = match error {
            RunError::Work(Unkept::Service(error)) => return Err(error),
            RunError::Failed(failed) => return Ok(answer::failed(self, &failed, request)),
            RunError::InFlight(in_flight) => answer::in_flight(pause(&in_flight)),
            RunError::Conflict(conflict) => {
                let differences = kept::differences(self, &conflict).await;
                answer::reused().with_differences(differences)
            }
            RunError::Store(error) => answer::store_failed(&error),
            RunError::Codec(error) => answer::unreadable(&error),
            _ => return Ok(unexpected(self, request)),
        };
        Ok(problem.into_response(&self.policy, request))
    }
}

/// Returns when a client should ask again: after as long as the key has been known. So the pauses
/// grow, from 1 s on, and end with the lease, which is renewed as long as the handler runs.
fn pause(in_flight: &InFlight) -> Duration {
    let info = &in_flight.info;
    let known = info.observed_at.saturating_since(info.created_at);
    known
        .min(in_flight.lease_remaining())
        .max(Duration::from_secs(1))
}

/// Returns whether the request is handled although the store is unreachable.
fn opens(guard: &Guard, error: &Error) -> bool {
    guard.policy.on_store_error == OnStoreError::Open && answer::is_unreachable(error)
}

/// Calls the service, without a key.
async fn call<S, B, R>(mut service: S, request: Request<B>) -> Result<Response<Body<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: HttpBody<Data = Bytes>,
{
    let response = service.call(request).await?;
    Ok(response.map(Body::new))
}

fn unexpected<R: HttpBody<Data = Bytes>>(
    guard: &Guard,
    request: Option<&KeyedRequest>,
) -> Response<Body<R>> {
    let error = Error::new(ErrorKind::Other, Effect::Unknown, "the run gave no answer");
    answer::unreadable(&error).into_response(&guard.policy, request)
}

#[cfg(test)]
mod tests {
    use idem_core::{FencingToken, RecordInfo, StalePolicy, Timestamp};

    use super::*;

    #[test]
    fn pauses_grow_with_the_time_for_which_the_key_is_known() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        for (now, lease_ends, expected) in
            [(100, 130, 1), (105, 135, 5), (150, 170, 20), (150, 140, 1)]
        {
            let fingerprint = Fingerprint::raw("request");
            let mut info = RecordInfo::new(fingerprint, FencingToken::from_i64(1), 1);
            (info.created_at, info.observed_at) = (at(100), at(now));
            let in_flight = InFlight {
                info,
                lease_ends_at: at(lease_ends),
                on_stale: StalePolicy::TakeOver,
            };
            assert_eq!(pause(&in_flight).as_secs(), expected);
        }
    }
}
