//! One request with a key, from its body to its answer.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use idem_core::{
    BoxError, Effect, Error, ErrorKind, Fingerprint, Outcome, Response as Stored, RunError, Work,
};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tower_service::Service;
use tracing::Instrument;

use crate::guard::Guard;
use crate::seal::{Judge, Judged};
use crate::{Body, OnStoreError, answer, buffer, fingerprint, kept, problem::Problem};

/// Reads the request, then handles it in a task of its own, which a disconnected client does not
/// end.
///
/// A panic of the service reaches the caller, as it would without the layer.
pub(crate) async fn run<S, B, R>(
    service: S,
    request: Request<B>,
    mut guard: Guard,
) -> Result<Response<Body<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: HttpBody + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    let policy = Arc::clone(&guard.policy);
    let (parts, body) = request.into_parts();
    let body = match buffer::read(&parts.headers, body, guard.max_request_bytes()).await {
        Ok(body) => body,
        Err(problem) => return Ok(problem.into_response(&policy)),
    };
    let fingerprint = fingerprint::of(&parts, &body, policy.also_fingerprinted.as_ref());
    let Ok(runtime) = Handle::try_current() else {
        return Ok(no_runtime().into_response(&policy));
    };
    guard.document = kept::document(&policy, &parts.headers, &body);
    let exchange = Exchange {
        guard,
        fingerprint,
        request: Request::from_parts(parts, B::from(body)),
        service,
    };
    let (_here, gone) = oneshot::channel();
    match runtime.spawn(exchange.run(gone).in_current_span()).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Ok(answer::shutting_down().into_response(&policy)),
        },
    }
}

fn no_runtime() -> Problem {
    Problem::misconfigured(&Error::new(
        ErrorKind::Misconfigured,
        Effect::None,
        "the layer needs a Tokio runtime with time enabled",
    ))
}

struct Exchange<S, B> {
    guard: Guard,
    fingerprint: Fingerprint,
    request: Request<B>,
    service: S,
}

/// The work's error for a response that does not use up the key.
enum Unkept<R: HttpBody<Data = Bytes>, E> {
    Response(Response<Body<R>>),
    Service(E),
    /// The engine called the work twice, which it never does.
    Gone,
}

impl<R: HttpBody<Data = Bytes>, E> fmt::Display for Unkept<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response(response) => write!(f, "answered with {}", response.status()),
            Self::Service(_) | Self::Gone => f.write_str("the service failed"),
        }
    }
}

type Ran<R, E> = Result<Outcome<Stored>, RunError<Unkept<R, E>, Stored>>;

impl<S, B, R> Exchange<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    async fn run(self, gone: oneshot::Receiver<()>) -> Result<Response<Body<R>>, S::Error> {
        let guard = &self.guard;
        let engine = guard.idempotency.policy_for(&guard.key);
        let judge = Judge::new(&guard.policy, &engine, guard.idempotency.store().limits());
        let mut call = Some((self.service, self.request));
        let mut live = None;
        let fingerprint = self.fingerprint;
        let has_begun = AtomicBool::new(false);
        let (slot, call_slot, begun) = (&mut live, &mut call, &has_begun);
        let work = |work: Work| async move {
            begun.store(true, Ordering::Relaxed);
            let (mut service, mut request) = call_slot.take().ok_or(Unkept::Gone)?;
            request.extensions_mut().insert(work);
            let handling = kept::beside(service.call(request), guard, fingerprint);
            let response = handling.await.map_err(Unkept::Service)?;
            match judge.judge(response).await {
                Judged::StoredResult(stored, response) => {
                    *slot = Some(response);
                    Ok(stored)
                }
                Judged::Released(response) => Err(Unkept::Response(response)),
            }
        };
        let running = guard
            .idempotency
            .run_response(&guard.key, fingerprint, work);
        let ran: Ran<R, S::Error> = tokio::select! {
            biased;
            ran = running => ran,
            () = given_up(gone, &has_begun) => {
                // The client is gone, so this response reaches no client.
                return Ok(answer::shutting_down().into_response(&guard.policy));
            }
        };
        match ran {
            Err(RunError::Store(error)) if opens(guard, &error) => match call {
                Some((service, request)) => unguarded(service, request).await,
                None => Ok(answer::store_failed(&error).into_response(&guard.policy)),
            },
            Ok(Outcome::Fresh(stored)) | Err(RunError::NotStored { value: stored, .. }) => {
                let response = live.or_else(|| answer::from_stored(stored));
                Ok(response.unwrap_or_else(|| unexpected(guard)))
            }
            Ok(Outcome::Replayed { value, sealed_at }) => {
                Ok(answer::replay(value, sealed_at, &guard.policy))
            }
            Err(error) => guard.refuse(error).await,
        }
    }
}

impl Guard {
    /// The response for a caller that neither ran nor gets a stored response.
    async fn refuse<R, E>(
        &self,
        error: RunError<Unkept<R, E>, Stored>,
    ) -> Result<Response<Body<R>>, E>
    where
        R: HttpBody<Data = Bytes> + Send,
        R::Error: Send,
        E: Send,
    {
        let retry_after = error.retry_after();
        let problem = match error {
            RunError::Work(Unkept::Response(response)) => return Ok(response),
            RunError::Work(Unkept::Service(error)) => return Err(error),
            RunError::Failed(failed) => return Ok(answer::failed(&failed, &self.policy)),
            RunError::InFlight(_) => answer::in_flight(retry_after),
            RunError::Conflict(conflict) => {
                let differences = kept::differences(self, &conflict).await;
                answer::reused(&self.policy, differences)
            }
            RunError::Store(error) => answer::store_failed(&error),
            _ => return Ok(unexpected(self)),
        };
        Ok(problem.into_response(&self.policy))
    }
}

/// Ends when the client goes away before its request began, such as while it waits for another's
/// response: there is nothing to finish then.
async fn given_up(gone: oneshot::Receiver<()>, has_begun: &AtomicBool) {
    let _ = gone.await;
    if has_begun.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// Returns whether the request is handled although the store is unreachable.
fn opens(guard: &Guard, error: &Error) -> bool {
    guard.policy.on_store_error == OnStoreError::Open && answer::is_unreachable(error)
}

async fn unguarded<S, B, R>(
    mut service: S,
    request: Request<B>,
) -> Result<Response<Body<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: HttpBody<Data = Bytes>,
{
    tracing::warn!(
        "the store is out of reach: a request with an idempotency key is handled without it"
    );
    let response = service.call(request).await?;
    Ok(response.map(Body::new))
}

fn unexpected<R: HttpBody<Data = Bytes>>(guard: &Guard) -> Response<Body<R>> {
    let error = Error::new(ErrorKind::Other, Effect::Unknown, "the run gave no answer");
    Problem::misconfigured(&error).into_response(&guard.policy)
}
