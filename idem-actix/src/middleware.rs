//! [`IdempotencyMiddleware`]: idempotency keys for an application, a scope or a resource.

use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::sync::Arc;

use actix_web::Error;
use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use http::request::Parts;
use idem_core::Idempotency;
use idem_http::{HttpPolicy, IdempotencyLayer};

use crate::scope::FromExtensions;
use crate::{AnswerBody, IdempotencyService, RequestScope};

/// Handles requests with an `Idempotency-Key` once, and replays their responses.
///
/// Create it outside of the factory of the application, so that all workers share the engine, and
/// wrap the application, a scope or a resource with a clone. `wrap` makes the last one the
/// outermost: wrap with authentication and compression after it. A clone costs a few reference
/// counts: give each resource a clone with its own policy.
#[derive(Clone)]
pub struct IdempotencyMiddleware {
    layer: IdempotencyLayer,
    scope: Option<Arc<dyn RequestScope>>,
}

impl IdempotencyMiddleware {
    /// Creates a middleware with [`HttpPolicy::default`]. Each request has the scope that `scope`
    /// returns; there is no default scope.
    pub fn new(idempotency: Idempotency, scope: impl RequestScope) -> Self {
        Self {
            layer: IdempotencyLayer::new(idempotency, FromExtensions),
            scope: Some(Arc::new(scope)),
        }
    }

    /// Creates a middleware of this layer, with all its settings. The layer sees the head of each
    /// request, but nothing of its extensions: use this where the head names the scope.
    #[must_use]
    pub fn from_layer(layer: IdempotencyLayer) -> Self {
        Self { layer, scope: None }
    }

    /// Stores the hash of each scope: see [`IdempotencyLayer::with_scope_secret`].
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the secret is too short.
    pub fn with_scope_secret(mut self, secret: impl AsRef<[u8]>) -> idem_core::Result<Self> {
        self.layer = self.layer.with_scope_secret(secret)?;
        Ok(self)
    }

    /// Sets the policy.
    #[must_use]
    pub fn with_policy(mut self, policy: HttpPolicy) -> Self {
        self.layer = self.layer.with_policy(policy);
        self
    }

    /// Sets a policy by request; when it returns `None`, the policy of the middleware applies.
    #[must_use]
    pub fn with_policy_by(
        mut self,
        policy: impl Fn(&Parts) -> Option<Arc<HttpPolicy>> + Send + Sync + 'static,
    ) -> Self {
        self.layer = self.layer.with_policy_by(policy);
        self
    }
}

impl<S, B> Transform<S, ServiceRequest> for IdempotencyMiddleware
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    S::Future: 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<B, AnswerBody>>;
    type Error = Error;
    type Transform = IdempotencyService<S>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        ready(Ok(IdempotencyService {
            inner: Rc::new(inner),
            layer: self.layer.clone(),
            scope: self.scope.clone(),
        }))
    }
}

impl fmt::Debug for IdempotencyMiddleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyMiddleware")
            .field("layer", &self.layer)
            .finish_non_exhaustive()
    }
}
