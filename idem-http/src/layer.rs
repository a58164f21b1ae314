//! [`IdempotencyLayer`]: idempotency keys for a service.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use idem_core::Idempotency;
use tower_layer::Layer;

use crate::from_parts::FromParts;
use crate::{HttpPolicy, IdempotencyService, ScopeExtractor};

/// Handles requests with an `Idempotency-Key` once, and replays their responses.
///
/// It wraps any service of requests whose body can be made from bytes, such as axum's. Put it
/// inside the layers that authenticate callers and compress responses, and outside the handlers. A
/// clone costs a few reference counts: give each route a clone with its own policy.
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(crate) idempotency: Idempotency,
    pub(crate) scope: Arc<dyn ScopeExtractor>,
    policy: Arc<HttpPolicy>,
    policy_by: Option<FromParts<Option<Arc<HttpPolicy>>>>,
}

impl IdempotencyLayer {
    /// Creates a layer with [`HttpPolicy::default`]. Each request has the scope that `scope`
    /// returns; there is no default scope.
    pub fn new(idempotency: Idempotency, scope: impl ScopeExtractor) -> Self {
        Self {
            idempotency,
            scope: Arc::new(scope),
            policy: Arc::new(HttpPolicy::default()),
            policy_by: None,
        }
    }

    /// Sets the policy.
    #[must_use]
    pub fn with_policy(mut self, policy: HttpPolicy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Sets a policy by request; when it returns `None`, the policy of the layer applies.
    #[must_use]
    pub fn with_policy_by(
        mut self,
        policy: impl Fn(&Parts) -> Option<Arc<HttpPolicy>> + Send + Sync + 'static,
    ) -> Self {
        self.policy_by = Some(FromParts::new(policy));
        self
    }

    pub(crate) fn policy_for(&self, parts: &Parts) -> Arc<HttpPolicy> {
        let own = self.policy_by.as_ref().and_then(|policy| policy.of(parts));
        own.unwrap_or_else(|| Arc::clone(&self.policy))
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService::new(inner, self.clone())
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("idempotency", &self.idempotency)
            .field("policy", &self.policy)
            .field("policy_by", &self.policy_by)
            .finish_non_exhaustive()
    }
}
