//! [`IdempotencyService`]: a service behind the layer.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use idem_core::BoxError;
use tower_service::Service;

use crate::exchange::{self, Begun, Rules};
use crate::future::Guarded;
use crate::guard::Entry;
use crate::{Body, IdempotencyLayer, KeyedRequest, ResponseFuture};

/// A service behind an [`IdempotencyLayer`].
///
/// Requests without a key reach the inner service untouched and unread. Requests with a key are
/// read whole, without their trailers. If the caller drops the future after the handler was called,
/// a task of its own finishes the handler. That task keeps the `tracing` span, but does not see the
/// caller's task-local variables. The handler finds the run's [`Work`](idem_core::Work) in the
/// request's extensions: it can derive keys for its own calls, and check whether it still holds the
/// claim.
#[derive(Debug, Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    /// Shared, because servers clone a service for each request.
    layer: Arc<IdempotencyLayer>,
}

impl<S> IdempotencyService<S> {
    pub(crate) fn new(inner: S, layer: IdempotencyLayer) -> Self {
        Self {
            inner,
            layer: Arc::new(layer),
        }
    }
}

impl<S, B, R> Service<Request<B>> for IdempotencyService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: HttpBody + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let next = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, next);
        let (parts, body) = request.into_parts();
        let policy = self.layer.policy_for(&parts);
        match Entry::of(&self.layer, &policy, &parts) {
            Ok(Entry::Passes) => {
                ResponseFuture::passed(ready.call(Request::from_parts(parts, body)))
            }
            Ok(Entry::Reads(known)) => {
                let begun = Begun::new(policy.on_disconnect);
                let request = Request::from_parts(parts, body);
                let rules = Rules {
                    layer: Arc::clone(&self.layer),
                    policy,
                    known,
                };
                let exchange = Box::pin(exchange::run(ready, request, rules, begun.clone()));
                ResponseFuture::guarded(Guarded::new(begun, exchange))
            }
            Err(problem) => {
                let request = KeyedRequest::new(parts, Bytes::new());
                ResponseFuture::refused(problem.into_response(&policy, Some(&request)))
            }
        }
    }
}
