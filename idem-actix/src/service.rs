//! [`IdempotencyService`]: a service behind the middleware.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, forward_ready};
use actix_web::error::{ErrorBadRequest, ErrorInternalServerError, InternalError};
use actix_web::{Error, rt};
use http::Request;
use idem_http::IdempotencyLayer;
use tokio::sync::{mpsc, oneshot};
use tower_layer::Layer;
use tower_service::Service as _;

use crate::handler::{self, Returned};
use crate::handover::Handover;
use crate::incoming::Incoming;
use crate::scope::Scope;
use crate::{AnswerBody, RequestScope, answer, convert};

/// A service behind an [`IdempotencyMiddleware`](crate::IdempotencyMiddleware).
///
/// The rules are those of `idem-http`, whose layer wants a service that may move between threads.
/// An actix service may not. So a task on this worker keeps the actix request and serves the layer:
/// it reads the payload, calls the inner service and sends the response, piece by piece. If the
/// client disconnects after the inner service was called, this task and the layer's own one finish
/// the work.
pub struct IdempotencyService<S> {
    pub(crate) inner: Rc<S>,
    pub(crate) layer: IdempotencyLayer,
    pub(crate) scope: Option<Arc<dyn RequestScope>>,
}

type Answered<B> = Result<ServiceResponse<EitherBody<B, AnswerBody>>, Error>;

impl<S, B> Service<ServiceRequest> for IdempotencyService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    S::Future: 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<B, AnswerBody>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Answered<B>>>>;

    forward_ready!(inner);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let Some(mut parts) = convert::request(request.head()) else {
            let error = ErrorBadRequest("the head of the request cannot be read");
            return Box::pin(async { Err(error) });
        };
        if let Some(scope) = &self.scope {
            parts.extensions.insert(Scope(scope.scope(&request)));
        }
        let (asks, mut asked) = mpsc::unbounded_channel();
        let head = request.head();
        let payload = match convert::is_upgrade(head) {
            // Actix lets it run into the new protocol: the layer refuses what it cannot compare.
            true if convert::has_body(head) => Incoming::Unreadable,
            // What follows the head belongs to the new protocol.
            true => Incoming::empty(),
            false => Incoming::unread(asks.clone()),
        };
        // It is always ready, like the handover. The task waits for calls until nobody can make one,
        // so only the exchange may keep the handover.
        let mut rules = self.layer.layer(Handover::new(asks));
        let exchange = rules.call(Request::from_parts(parts, payload));
        // The layer calls the service at once if the request is none of its business.
        if asked.try_recv().is_ok() {
            let passed = self.inner.call(request);
            return Box::pin(async { Ok(passed.await?.map_into_left_body()) });
        }
        let inner = Rc::clone(&self.inner);
        Box::pin(async move {
            let (returns, returned) = oneshot::channel();
            rt::spawn(handler::run(inner, request, asked, returns));
            let answered = exchange.await;
            let answer = answered.map_err(ErrorInternalServerError)?;
            let (parts, body) = answer.into_parts();
            let response = match returned.await.map_err(ErrorInternalServerError)? {
                Returned::Untouched(request) => {
                    let (request, _) = request.into_parts();
                    ServiceResponse::new(request, answer::response(&parts, body, None))
                }
                Returned::Answered(request, original) => {
                    let response = answer::response(&parts, body, Some(original));
                    ServiceResponse::new(request, response)
                }
                Returned::Failed(error, original) => {
                    let response = answer::response(&parts, body, Some(original));
                    let response = response.map_into_boxed_body();
                    return Err(InternalError::from_response(error, response).into());
                }
            };
            Ok(response.map_into_right_body())
        })
    }
}

impl<S> fmt::Debug for IdempotencyService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService")
            .field("layer", &self.layer)
            .finish_non_exhaustive()
    }
}
