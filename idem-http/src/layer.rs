//! [`IdempotencyLayer`]: keys for a service.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use idem_core::Idempotency;
use tower_layer::Layer;

use crate::from_parts::FromParts;
use crate::{HttpPolicy, IdempotencyService, ScopeExtractor};

/// Handles requests with an `Idempotency-Key` once, and replays their responses.
///
/// It goes around any service of requests whose body can be made of bytes, such as axum's. Put it
/// inside of what authenticates callers and compresses responses, and outside of what handles
/// requests. Cloning costs a few reference counts: give each route a clone with a policy of its
/// own.
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(crate) idempotency: Idempotency,
    pub(crate) scope: Arc<dyn ScopeExtractor>,
    policy: Arc<HttpPolicy>,
    policy_by: Option<FromParts<Option<Arc<HttpPolicy>>>>,
}

impl IdempotencyLayer {
    /// A layer with [`HttpPolicy::default`]. The scope of each request is what `scope` says; there
    /// is no other.
    pub fn new(idempotency: Idempotency, scope: impl ScopeExtractor) -> Self {
        Self {
            idempotency,
            scope: Arc::new(scope),
            policy: Arc::new(HttpPolicy::default()),
            policy_by: None,
        }
    }

    /// The same with this policy.
    #[must_use]
    pub fn with_policy(mut self, policy: HttpPolicy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// The same with a policy by request; where it gives none, the policy of the layer holds.
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
