//! [`Guard`]: the key of a request, and the rules for it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::request::Parts;
use http::{HeaderName, StatusCode};
use idem_core::json::RawJson;
use idem_core::{BusyPolicy, Idempotency, Key, Policy, Timestamp};

use crate::json_rpc::Envelope;
use crate::key::Found;
use crate::refusal::Problem;
use crate::{
    HttpPolicy, IdempotencyLayer, KeyError, KeyedRequest, ProblemType, Requirement, ScopeError,
    media,
};

/// A proxy received the request before the handshake had ended. Any value means `1` (RFC 8470, 5.1).
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// What the head of a request says about its key.
pub(crate) enum Entry {
    /// The request goes to the service unread.
    Passes,
    /// The body has to be read; the key may be known already.
    Reads(Option<Known>),
}

/// A valid key and its scope.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) found: Found,
    scope: String,
}

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

impl Entry {
    /// Decides from the head alone, as far as that is possible.
    pub(crate) fn of(
        layer: &IdempotencyLayer,
        policy: &HttpPolicy,
        parts: &Parts,
    ) -> Result<Self, Problem> {
        if !policy.guards(&parts.method) {
            return Ok(Self::Passes);
        }
        if policy.reads_first() {
            return Ok(Self::Reads(None));
        }
        let found = policy.source.in_head(parts, policy.form);
        match found.map_err(malformed)? {
            Some(found) => Ok(Self::Reads(Some(Known::new(layer, policy, parts, found)?))),
            None if layer.requirement(policy) == Requirement::Required => Err(missing(policy)),
            None => Ok(Self::Passes),
        }
    }
}

impl Known {
    fn new(
        layer: &IdempotencyLayer,
        policy: &HttpPolicy,
        parts: &Parts,
        mut found: Found,
    ) -> Result<Self, Problem> {
        found.key = policy.format.check(found.key).map_err(malformed)?;
        if policy.requirement == Requirement::Unsupported {
            return Err(unsupported());
        }
        if parts.headers.contains_key(EARLY_DATA) {
            return Err(too_early());
        }
        let scope = layer.scope_of(parts).map_err(unscoped)?;
        Ok(Self { found, scope })
    }
}

impl Guard {
    /// Returns the guard of a request that was read; `None` when it goes to the service.
    pub(crate) fn new(
        layer: &IdempotencyLayer,
        policy: &Arc<HttpPolicy>,
        request: &mut KeyedRequest,
        known: Option<Known>,
    ) -> Result<Option<Self>, Problem> {
        let known = match known {
            Some(known) => known,
            None => match find(layer, policy, request)? {
                Some(known) => known,
                None => return Ok(None),
            },
        };
        let Known { found, scope } = known;
        request.message_mut().key = Some(found.sent);
        let operation = policy.operation(request);
        let texts = policy.key_space.as_ref().map(|texts| texts(request));
        let key = match texts.filter(|texts| !texts.is_empty()) {
            None => Key::new(scope, &operation, found.key.as_str()),
            Some(texts) => {
                let id = [found.key.as_str().to_owned()].into_iter();
                Key::from_parts(scope, &operation, id.chain(texts))
            }
        };
        let key = key.map_err(|error| Problem::misconfigured(&error))?;
        let replayed_for = replayed_for(&layer.idempotency, policy, &key);
        if let (Some(first_sent), Some(sent)) = (policy.source.first_sent(), found.first_sent)
            && first_sent.is_over(sent, SystemTime::now(), replayed_for)
        {
            return Err(expired(policy));
        }
        let engine = adjusted(layer.idempotency.policy_for(&key), policy);
        let most = engine.max_request_bytes().unwrap_or(usize::MAX);
        if request.body().len() > most {
            return Err(crate::buffer::too_large(most));
        }
        Ok(Some(Self {
            engine,
            idempotency: layer.idempotency.clone(),
            policy: Arc::clone(policy),
            key,
            document: None,
        }))
    }

    /// Returns whether a record of this age, which is kept for so long, is no longer replayed.
    pub(crate) fn is_expired(&self, sealed_at: Timestamp, kept: Duration) -> bool {
        let tombstone = self.policy.kept_longer();
        let sealed_at = u64::try_from(sealed_at.as_micros()).unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let age = now
            .unwrap_or_default()
            .saturating_sub(Duration::from_micros(sealed_at));
        !tombstone.is_zero() && age > kept.saturating_sub(tombstone)
    }
}

/// Finds the key of a request whose body was read first.
fn find(
    layer: &IdempotencyLayer,
    policy: &HttpPolicy,
    request: &mut KeyedRequest,
) -> Result<Option<Known>, Problem> {
    let mut requirement = layer.requirement(policy);
    let body = request.body().clone();
    let document = RawJson::read(&body);
    if document.is_none() && may_hold_key(policy, request) {
        return Err(malformed(KeyError::NotJson));
    }
    if let Some(rules) = &policy.json_rpc {
        let envelope = document.map_or(Ok(Envelope::Other), |body| rules.envelope(body));
        match envelope.map_err(malformed)? {
            Envelope::Other => return Ok(None),
            Envelope::Batch => return Err(malformed(KeyError::Batch)),
            Envelope::Call(call, of_call) => {
                request.message_mut().call = Some(call);
                if requirement != Requirement::Unsupported {
                    requirement = of_call;
                }
            }
        }
    }
    let found = policy.source.in_request(request, document, policy.form);
    match found.map_err(malformed)? {
        Some(found) => Known::new(layer, policy, request.parts(), found).map(Some),
        None if requirement == Requirement::Required => Err(missing(policy)),
        None => Ok(None),
    }
}

/// Returns whether a body that is not JSON may hold a key or a call in the eyes of another reader.
fn may_hold_key(policy: &HttpPolicy, request: &KeyedRequest) -> bool {
    let body = request.body();
    let headers = &request.parts().headers;
    let is_form = policy.source.reads_forms() && media::is_form(headers);
    !body.trim_ascii().is_empty()
        && (policy.requirement == Requirement::Required && !is_form
            || policy.json_rpc.is_some()
            || media::may_be_json(headers, body))
}

/// Returns how long answers of this key are replayed.
pub(crate) fn replayed_for(idempotency: &Idempotency, policy: &HttpPolicy, key: &Key) -> Duration {
    let engine = || idempotency.policy_for(key).retention();
    policy.retention.unwrap_or_else(engine)
}

/// Returns the engine's policy with the wait and the retention of the route, and its tombstones.
fn adjusted(engine: Arc<Policy>, policy: &HttpPolicy) -> Arc<Policy> {
    let waits = engine.on_busy() == BusyPolicy::Refuse && !policy.wait.is_zero();
    if !waits && policy.retention.is_none() && policy.kept_longer().is_zero() {
        return engine;
    }
    let mut engine = Policy::clone(&engine);
    if waits {
        engine = engine.with_on_busy(BusyPolicy::wait(policy.wait));
    }
    let retention = |of_engine: Duration| {
        let replayed = policy.retention.unwrap_or(of_engine);
        replayed.saturating_add(policy.kept_longer())
    };
    let (result, mut failure) = (engine.retention(), engine.failure_retention());
    if policy.source.first_sent().is_some() {
        // A time within the window must meet the failure, too.
        failure = failure.max(result);
    }
    let engine = engine
        .with_retention(retention(result))
        .with_failure_retention(retention(failure));
    Arc::new(engine)
}

fn malformed(error: KeyError) -> Problem {
    let mut detail = error.to_string();
    if let Some(first) = detail.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Problem::new(ProblemType::KeyMalformed, format!("{detail}."))
}

fn missing(policy: &HttpPolicy) -> Problem {
    let detail = format!(
        "This operation requires an idempotency key: {} a string that is new for each new request, and the same \
         for a retry.",
        policy.source.describe()
    );
    Problem::new(ProblemType::KeyMissing, detail)
}

fn unsupported() -> Problem {
    Problem::new(
        ProblemType::KeyUnsupported,
        "This operation does not support idempotency keys. Nothing was done; without a key it is handled, and a \
         retry is handled again.",
    )
}

/// A key makes a copy harmless only while its record exists. Whoever recorded the bytes may send them
/// after a release or the retention, so they "cannot be safely processed" (RFC 8470, 5.1).
fn too_early() -> Problem {
    Problem::new(
        ProblemType::TooEarly,
        "A request with a key cannot be handled in early data. Send it again after the handshake, unchanged and with \
         the same key.",
    )
}

pub(crate) fn expired(policy: &HttpPolicy) -> Problem {
    let problem = Problem::new(
        ProblemType::KeyExpired,
        "The answer for this key is no longer kept, and the request may have been handled. Find out what became of \
         it before sending it with another key.",
    );
    match policy.source.first_sent() {
        Some(_) => problem.with_status(StatusCode::PRECONDITION_FAILED),
        None => problem,
    }
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
