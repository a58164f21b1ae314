//! One request with a key whose answer commits with the handler's rows.

use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{Extensions, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use idem_core::{BoxError, Effect, Error, ErrorKind, Outcome, Response as Stored, RunError};
use tower_service::Service;

use crate::exchange::{Begun, Unkept, fingerprinted};
use crate::guard::Guard;
use crate::seal::{Judge, Judged, Unstored};
use crate::transaction::{Boxed, RunsIn};
use crate::{Body, HandlerError, KeyedRequest, OnDisconnect, answer, kept};

/// Handles a request in a transaction, and again after an error that calls for it.
pub(crate) async fn guarded<S, B, R>(
    service: S,
    request: KeyedRequest,
    mut guard: Guard,
    transactions: &dyn RunsIn,
    begun: Begun<R>,
) -> Result<Response<Body<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
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
    let attempts = Attempts {
        guard,
        request: &request,
        judge: Judge::new(guard, request.message(), &request.parts().headers),
        begun,
        service: Mutex::new(service),
        last: Mutex::new(None),
    };
    let answers = |extensions: Extensions| -> Boxed<'_, Result<Stored, BoxError>> {
        Box::pin(attempts.attempt(extensions))
    };
    let ran = transactions.run(guard, fingerprint, &answers).await;
    let last = lock(&attempts.last).take();
    drop(attempts);
    let sent = request.key().map(str::to_owned);
    let first = |mut response: Response<Body<R>>| {
        let markers = &guard.policy.markers;
        markers.mark_first(response.headers_mut(), sent.as_deref());
        response
    };
    let problem = match ran {
        Ok(Outcome::Fresh(stored)) => {
            kept::beside(async {}, guard, fingerprint).await;
            let response = match last {
                Some((Ok(response), true)) => Some(response),
                _ => answer::from_stored(stored),
            };
            match response {
                Some(response) => return Ok(first(response)),
                None => answer::unreadable(&Error::corrupt("the answer has no HTTP status")),
            }
        }
        Ok(Outcome::Replayed { value, sealed_at }) => {
            return Ok(answer::replay(guard, value, sealed_at, Some(request)).await);
        }
        Err(RunError::NotStored { source, .. }) => answer::unknown(&source),
        Err(RunError::Work(error)) => match (error.downcast::<RolledBack>(), last) {
            (Ok(why), Some((answered, false))) => {
                if let Some(error) = &why.error {
                    tracing::error!(error = ?error.get(), "a handler failed, and its transaction was rolled back");
                }
                return answered.map(first);
            }
            // The error is of an earlier attempt. The last answer speaks of a commit that failed.
            (Ok(why), _) => answer::rolled_back(&(why as BoxError), true),
            (Err(error), _) => {
                let own = error.downcast_ref::<Error>();
                let is_retryable = own.is_some_and(Error::is_retryable);
                let is_retryable = is_retryable || transactions.is_retryable(&*error);
                answer::rolled_back(&error, is_retryable)
            }
        },
        Err(error) => {
            let error = error.map_work(|_| Unkept::Gone);
            return guard.refuse(error, Some(&request)).await;
        }
    };
    Ok(problem.into_response(&guard.policy, Some(&request)))
}

type Answered<R, E> = Result<Response<Body<R>>, E>;

/// The calls of the handler for one request.
struct Attempts<'a, S, R: HttpBody<Data = Bytes>, E> {
    guard: &'a Guard,
    request: &'a KeyedRequest,
    judge: Judge<'a>,
    begun: Begun<R>,
    service: Mutex<S>,
    /// The answer of the last call, and whether it was to be committed.
    last: Mutex<Option<(Answered<R, E>, bool)>>,
}

impl<S, R: HttpBody<Data = Bytes>, E> Attempts<'_, S, R, E> {
    /// Calls the handler, and returns what to store.
    async fn attempt<B>(&self, extensions: Extensions) -> Result<Stored, BoxError>
    where
        S: Service<Request<B>, Response = Response<R>, Error = E> + Clone + Send,
        S::Future: Send,
        E: Send,
        B: From<Bytes> + Send,
        R: Send,
        R::Error: Send,
    {
        if self.guard.policy.on_disconnect == OnDisconnect::Finish {
            self.begun.note();
        }
        // The first one is ready, and its clones have to become so.
        let mut service = {
            let mut service = lock(&self.service);
            let next = service.clone();
            std::mem::replace(&mut *service, next)
        };
        let handling = async {
            poll_fn(|context| service.poll_ready(context)).await?;
            service.call(self.request.to_request(extensions)).await
        };
        let response = match handling.await {
            Ok(response) => response,
            Err(error) => {
                *lock(&self.last) = Some((Err(error), false));
                return Err(RolledBack::new(None, None).into());
            }
        };
        let status = response.status();
        if let Some(error) = response.extensions().get::<HandlerError>().cloned() {
            *lock(&self.last) = Some((Ok(response.map(Body::new)), false));
            return Err(RolledBack::new(Some(status), Some(error)).into());
        }
        let is_kept = self.guard.policy.kept.contains(status);
        let (stored, response) = match self.judge.judge(response).await {
            Judged::StoredResult(stored, response) => (Some(stored), response),
            Judged::Released(response) => (None, response),
            // It would be sent before its rows commit.
            Judged::Streamed(_, mut response) => {
                response.extensions_mut().insert(Unstored::Stream);
                (None, response)
            }
        };
        let why = response.extensions().get::<Unstored>().copied();
        match (stored, why) {
            (Some(stored), None) if is_kept => {
                *lock(&self.last) = Some((Ok(response), true));
                Ok(stored)
            }
            (_, Some(why)) if is_refused(why, status, is_kept) => {
                let message = format!(
                    "an answer that cannot be stored ({}) was not sent, and its transaction was rolled back; a layer in \
                     transactions is for answers that are stored",
                    why.name()
                );
                Err(Error::new(ErrorKind::Misconfigured, Effect::None, message).into())
            }
            _ => {
                *lock(&self.last) = Some((Ok(response), false));
                Err(RolledBack::new(Some(status), None).into())
            }
        }
    }
}

/// Returns whether an answer that is not stored would tell the client of rows that are gone.
fn is_refused(why: Unstored, status: StatusCode, is_kept: bool) -> bool {
    let is_error = status.is_client_error() || status.is_server_error();
    match why {
        Unstored::Content => false,
        Unstored::TooLarge | Unstored::Broken => is_kept || !is_error,
        _ => !is_error,
    }
}

/// Returns the handler's answer if it is the one that the handler has committed; otherwise the
/// client gets the committed one.
pub(crate) async fn committed<R: HttpBody<Data = Bytes>, E>(
    judge: &Judge<'_>,
    handled: Result<Response<R>, E>,
    committed: &Stored,
) -> Option<Response<Body<R>>> {
    if let Ok(response) = handled
        && let Judged::StoredResult(stored, response) = judge.judge(response).await
        && stored == *committed
    {
        return Some(response);
    }
    tracing::error!(
        "a handler answered otherwise than it has committed for its idempotency key; the client gets what is committed"
    );
    None
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The work's error for an answer that is sent after the rollback.
#[derive(Debug)]
struct RolledBack {
    status: Option<StatusCode>,
    error: Option<HandlerError>,
}

impl RolledBack {
    fn new(status: Option<StatusCode>, error: Option<HandlerError>) -> Self {
        Self { status, error }
    }
}

impl fmt::Display for RolledBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "answered with {status}"),
            None => f.write_str("the service failed"),
        }
    }
}

impl StdError for RolledBack {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.error.as_ref()?.get())
    }
}
