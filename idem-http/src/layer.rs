//! [`IdempotencyLayer`]: idempotency keys for a service.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use idem_core::{Effect, Error, ErrorKind, Idempotency, Key, Result};
use tower_layer::Layer;

use crate::hook::{FromParts, Hook};
use crate::{HttpPolicy, IdempotencyService, Lifetime, ScopeExtractor, guard};

/// Handles requests with an `Idempotency-Key` once, and replays their responses.
///
/// It wraps any service of requests whose body can be made from bytes, such as axum's. Put it
/// inside the layers that authenticate callers and compress responses, and outside the handlers: see
/// [`layers`](crate::layers). A clone costs a few reference counts: give each route a clone with its own policy.
///
/// # Browsers
///
/// A script of another origin may send the key and read the markers only if the server allows it.
/// With `tower-http`, outside of this layer:
///
/// ```
/// use http::Method;
/// use http::header::{CONTENT_TYPE, RETRY_AFTER};
/// use idem_http::{FIRST_ANSWERED, IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED};
/// use tower_http::cors::{AllowOrigin, CorsLayer};
///
/// let cors = CorsLayer::new()
///     .allow_origin(AllowOrigin::exact("https://shop.example".parse()?))
///     .allow_methods([Method::POST])
///     .allow_headers([CONTENT_TYPE, IDEMPOTENCY_KEY])
///     .expose_headers([IDEMPOTENT_REPLAYED, FIRST_ANSWERED, RETRY_AFTER]);
/// # let _ = cors;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Name the headers of other presets instead. Inside of this layer CORS headers would be those of
/// the first exchange, and refusals would have none.
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
        self.policy_by = Some(Hook(Arc::new(policy)));
        self
    }

    /// Returns how long the layer replays answers under its policy, for what the server publishes:
    /// the two cannot part. A policy whose operation depends on the request has the engine's
    /// retention for the operation `http`, if it has none itself.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the operation is not valid in a
    /// key.
    pub fn lifetime(&self) -> Result<Lifetime> {
        let key = Key::new("-", self.policy.named_operation(), "-")?;
        let replayed = guard::replayed_for(&self.idempotency, &self.policy, &key);
        Ok(Lifetime::new(replayed))
    }

    /// Checks that the layer replays answers for as long as its policy promises at least
    /// ([`HttpPolicy::with_min_lifetime`]). Call it where the server starts.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](idem_core::ErrorKind::Misconfigured) when the retention is shorter; as for
    /// [`lifetime`](Self::lifetime).
    pub fn verify(&self) -> Result<()> {
        let (lifetime, least) = (self.lifetime()?, self.policy.min_lifetime);
        match least.filter(|least| lifetime.replayed() < *least) {
            None => Ok(()),
            Some(least) => {
                let detail = format!(
                    "the protocol requires that answers are replayed for {} s, and they are kept for {} s; set the \
                     retention of the HTTP policy or of the engine's",
                    least.as_secs(),
                    lifetime.as_secs()
                );
                Err(Error::new(ErrorKind::Misconfigured, Effect::None, detail))
            }
        }
    }

    pub(crate) fn policy_for(&self, parts: &Parts) -> Arc<HttpPolicy> {
        let own = self.policy_by.as_ref().and_then(|policy| policy(parts));
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
