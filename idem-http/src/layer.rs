//! [`IdempotencyLayer`]: idempotency keys for a service.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use idem_core::engine::Transactional;
use idem_core::{Effect, Error, ErrorKind, Idempotency, Key, Result};
use tower_layer::Layer;

use crate::hook::{FromParts, Hook};
use crate::scope::ScopeSecret;
use crate::transaction::{InTransactions, RunsIn};
use crate::{
    HttpPolicy, IdempotencyService, Lifetime, Requirement, ScopeError, ScopeExtractor, guard,
};

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
    scope: Arc<dyn ScopeExtractor>,
    scope_secret: Option<ScopeSecret>,
    policy: Arc<HttpPolicy>,
    policy_by: Option<FromParts<Option<Arc<HttpPolicy>>>>,
    pub(crate) transactions: Option<Arc<dyn RunsIn>>,
}

impl IdempotencyLayer {
    /// Creates a layer with [`HttpPolicy::default`]. Each request has the scope that `scope`
    /// returns; there is no default scope.
    pub fn new(idempotency: Idempotency, scope: impl ScopeExtractor) -> Self {
        Self {
            idempotency,
            scope: Arc::new(scope),
            scope_secret: None,
            policy: Arc::new(HttpPolicy::default()),
            policy_by: None,
            transactions: None,
        }
    }

    /// Stores the HMAC-SHA-256 of each scope under this secret (16 random bytes or more) instead of
    /// the scope. Use it where scopes are secrets, such as API keys, or personal, such as addresses:
    /// keys are in the store's tables, its backups, and the lists of operators. Default: scopes are
    /// stored as they are.
    ///
    /// The hash has a secret because guesses at a scope with few possible values could be tested
    /// against a plain one. All processes need the same secret, and it cannot be changed beside
    /// traffic: a changed one makes other keys, so a request that is repeated across the change is
    /// handled again. So is one that is repeated across the day on which this is switched on.
    ///
    /// A scope that is hashed may have any length and any characters.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) when the secret is shorter.
    pub fn with_scope_secret(mut self, secret: impl AsRef<[u8]>) -> Result<Self> {
        self.scope_secret = Some(ScopeSecret::new(secret.as_ref())?);
        Ok(self)
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

    /// Commits the handler's rows together with its answer. These transactions have to be made from
    /// the engine's store: [`verify`](Self::verify) checks it.
    ///
    /// The layer begins a transaction, claims the key in it, and calls the handler, which takes it as
    /// a [`Tx`](crate::Tx) and writes rows. The layer stores the answer in the transaction and
    /// commits; only then the client gets the first byte. So an answer and its rows exist both, or
    /// neither does, and there is no lease to wait for after a kill.
    ///
    /// | the handler's answer | the transaction | the client gets |
    /// | --- | --- | --- |
    /// | a status that is stored (2xx to 4xx by default), also one that the handler made without a [`Tx`](crate::Tx) | committed | the answer |
    /// | another status, an error of the service, a panic, a content that is not stored | rolled back | the same |
    /// | a [`HandlerError`](crate::HandlerError) that calls for another try: a deadlock, a serialization failure, a lock that was not free in time | rolled back; the handler is called again, until the engine's [retry time-out](idem_core::Policy::with_retry_timeout) | the answer of the last try |
    /// | another [`HandlerError`](crate::HandlerError) | rolled back | the answer |
    /// | `101`, a stream or [`NotStored`](crate::NotStored) with a status of 4xx or 5xx | rolled back | the answer |
    /// | the same with another status; over the limit; broken off | rolled back | `misconfigured` (500) |
    /// | given while a task still holds the [`Tx`](crate::Tx) | rolled back by that task | `misconfigured` (500) |
    /// | the answer to the commit is lost, and nobody can say what became of it | either | `outcome-unknown`, as 503 with `Retry-After` |
    ///
    /// A `4xx` that is stored commits the rows that were written before it: write none, or mark it
    /// [`NotStored`](crate::NotStored). Under an engine policy that records errors, an answer that was
    /// rolled back leaves the failure, and a retry gets `outcome-unknown`. The handler may be called
    /// again, so it acts through its transaction alone; one that calls other systems first belongs
    /// behind a layer without transactions, and commits with
    /// [`Work::commit_response`](idem_core::Work::commit_response). A request without a key is refused,
    /// as under [`Requirement::Required`](crate::Requirement::Required). While the store is
    /// unreachable, an [open](crate::OnStoreError::Open) route is closed, too.
    #[must_use]
    pub fn in_transactions(mut self, transactions: impl Transactional + 'static) -> Self {
        self.transactions = Some(Arc::new(InTransactions(transactions)));
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
    /// ([`HttpPolicy::with_min_lifetime`]), and that its transactions are the store's. Call it where
    /// the server starts.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](idem_core::ErrorKind::Misconfigured) when the retention is shorter, or the
    /// transactions are another store's; as for [`lifetime`](Self::lifetime).
    pub fn verify(&self) -> Result<()> {
        if let Some(transactions) = &self.transactions
            && !transactions.is_of(self.idempotency.store())
        {
            let detail =
                "the transactions of the layer were made from another store than the engine's";
            return Err(Error::new(ErrorKind::Misconfigured, Effect::None, detail));
        }
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

    /// Returns the scope of a request, as it is stored.
    pub(crate) fn scope_of(&self, parts: &Parts) -> Result<String, ScopeError> {
        let scope = self.scope.scope(parts)?;
        Ok(match &self.scope_secret {
            Some(secret) => secret.hash(scope),
            None => scope,
        })
    }

    pub(crate) fn policy_for(&self, parts: &Parts) -> Arc<HttpPolicy> {
        let own = self.policy_by.as_ref().and_then(|policy| policy(parts));
        own.unwrap_or_else(|| Arc::clone(&self.policy))
    }

    /// Returns the policy's requirement. A handler in a transaction of the key can do nothing without
    /// one.
    pub(crate) fn requirement(&self, policy: &HttpPolicy) -> Requirement {
        match policy.requirement {
            Requirement::Optional if self.transactions.is_some() => Requirement::Required,
            requirement => requirement,
        }
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
            .field("transactions", &self.transactions)
            .finish_non_exhaustive()
    }
}
