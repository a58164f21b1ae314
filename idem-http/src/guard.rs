//! [`Guard`]: the facts about a request with a key, before its body is read.

use std::sync::Arc;

use http::request::Parts;
use idem_core::{Idempotency, Key, Policy};

use crate::problem::Problem;
use crate::{
    HttpPolicy, IdempotencyKey, IdempotencyLayer, KeyError, ProblemType, Requirement, ScopeError,
};

/// The key and the rules of a request.
pub(crate) struct Guard {
    pub(crate) idempotency: Idempotency,
    /// The engine's policy for the key.
    pub(crate) engine: Arc<Policy>,
    pub(crate) policy: Arc<HttpPolicy>,
    pub(crate) key: Key,
    /// The body to keep, once it is read.
    pub(crate) document: Option<serde_json::Value>,
}

impl Guard {
    /// Returns the guard of this request; `None` when the request goes to the service unchanged.
    pub(crate) fn new(
        layer: &IdempotencyLayer,
        policy: &Arc<HttpPolicy>,
        parts: &Parts,
    ) -> Result<Option<Self>, Problem> {
        if !policy.guards(&parts.method) {
            return Ok(None);
        }
        let found = IdempotencyKey::from_headers(&parts.headers, &policy.header, policy.form)
            .map_err(|error| malformed(&error))?;
        let Some(found) = found else {
            return match policy.requirement {
                Requirement::Required => Err(missing(policy)),
                Requirement::Optional | Requirement::Off => Ok(None),
            };
        };
        let id = found
            .formatted(policy.format)
            .map_err(|error| malformed(&error))?;
        let scope = layer.scope.scope(parts).map_err(unscoped)?;
        let key = Key::new(scope, policy.operation(parts), id.as_str())
            .map_err(|error| Problem::misconfigured(&error))?;
        let idempotency = with_retention(&layer.idempotency, policy, &key);
        Ok(Some(Self {
            engine: idempotency.policy_for(&key),
            idempotency,
            policy: Arc::clone(policy),
            key,
            document: None,
        }))
    }

    /// Returns the route's limit, or the engine's if that is lower.
    pub(crate) fn max_request_bytes(&self) -> usize {
        let engine = self.engine.max_request_bytes().unwrap_or(usize::MAX);
        self.policy.max_request_bytes.min(engine)
    }
}

/// Returns the engine with the retention of the route.
fn with_retention(idempotency: &Idempotency, policy: &HttpPolicy, key: &Key) -> Idempotency {
    let idempotency = idempotency.clone();
    let Some(retention) = policy.retention else {
        return idempotency;
    };
    let engine = Policy::clone(&idempotency.policy_for(key));
    let engine = engine
        .with_retention(retention)
        .with_failure_retention(retention);
    idempotency.with_operation_policy(key.operation(), engine)
}

fn malformed(error: &KeyError) -> Problem {
    let mut detail = error.to_string();
    if let Some(first) = detail.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Problem::new(ProblemType::KeyMalformed, format!("{detail}."))
}

fn missing(policy: &HttpPolicy) -> Problem {
    let detail = format!(
        "This operation requires an idempotency key: send the header `{}` with a string that is new for each \
         new request, and the same for a retry.",
        policy.header
    );
    Problem::new(ProblemType::KeyMissing, detail)
}

fn unscoped(error: ScopeError) -> Problem {
    let problem = Problem::new(
        ProblemType::ScopeUnknown,
        "An idempotency key is kept for a caller, and this one is not known. Nothing was done.",
    );
    match error {
        ScopeError::Unknown => problem,
        ScopeError::Unauthenticated(challenge) => problem.with_challenge(challenge),
        ScopeError::Misconfigured => Problem::misconfigured(&error),
    }
}
