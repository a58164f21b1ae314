//! [`KeptRequests`]: the first request of a key, kept to show how a conflicting one differs.

use std::time::Duration;

use http::HeaderMap;
use idem_core::fingerprint::canonical_json;
use idem_core::wrappers::Mask;
use idem_core::{ClaimOutcome, ClaimRequest, Conflict, Fingerprint, Key, Record, Response, Result};
use serde_json::Value;
use tokio::time::timeout;

use crate::differences;
use crate::guard::Guard;
use crate::refusal::Differences;
use crate::{HttpPolicy, media};

/// The longest time that keeping or finding a request may delay its response.
const LIMIT: Duration = Duration::from_secs(1);

/// Which requests are kept, and what is masked in them before they reach the store.
///
/// The layer keeps the JSON body of each handled request for as long as its response, in a separate
/// record under a key derived from the request's. A conflict then carries `differences`: a JSON
/// Patch (RFC 6902) from the first body to this one. Where that would have more than 100 operations
/// or 16 KiB, the detail says in how many places the two differ. Bodies without a canonical form
/// ([`canonical_json`]), or over the limit, are not kept. Keeping and finding them never fails a
/// request; if it does not work, the conflict has no `differences`.
///
/// ```
/// let kept = idem_http::KeptRequests::new().with_masked("/card/number").with_masked("/items/*/secret");
/// let policy = idem_http::HttpPolicy::ietf().with_kept_requests(kept);
/// # let _ = policy;
/// ```
///
/// ```json
/// {"type":"urn:idem:problem:key-reused","title":"Idempotency-Key is already used","status":422,"detail":"This key was used for a different request. Nothing was done; a new request needs a new key.","differences":[{"op":"replace","path":"/amount","value":2}]}
/// ```
#[derive(Debug, Clone)]
pub struct KeptRequests {
    masks: Vec<Mask>,
    max_bytes: usize,
}

impl KeptRequests {
    /// The default limit of a body: 64 KiB.
    pub const DEFAULT_MAX_BYTES: usize = 64 << 10;

    /// Keeps all JSON bodies of at most 64 KiB, without masks.
    #[must_use]
    pub fn new() -> Self {
        Self {
            masks: Vec::new(),
            max_bytes: Self::DEFAULT_MAX_BYTES,
        }
    }

    /// Replaces what this JSON Pointer (RFC 6901) names in the body with `***`, such as
    /// `/card/number`; `*` stands for every element or member, as in `/cards/*/number`. A masked
    /// value is not stored and never counts as a difference. A conflict that differs only in masked
    /// values has an empty patch.
    #[must_use]
    pub fn with_masked(mut self, pointer: &str) -> Self {
        self.masks.push(Mask::new(pointer));
        self
    }

    /// Sets the limit of a body.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    fn masked(&self, mut document: Value) -> Value {
        for mask in &self.masks {
            mask.apply(&mut document);
        }
        document
    }
}

impl Default for KeptRequests {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the body to keep, if the policy keeps it.
pub(crate) fn document(policy: &HttpPolicy, headers: &HeaderMap, body: &[u8]) -> Option<Value> {
    let kept = policy.kept_requests.as_ref()?;
    if body.len() > kept.max_bytes || !media::is_json(headers, &media::essence(headers)) {
        return None;
    }
    let text = canonical_json(body).ok()?;
    // `Value` takes the text of this member for a document, and reads it at any depth.
    if text.contains("\"$serde_json::private::RawValue\":") {
        return None;
    }
    Some(kept.masked(serde_json::from_str(&text).ok()?))
}

/// Runs the handler while keeping its request.
pub(crate) async fn beside<F: Future + Send>(
    handling: F,
    guard: &Guard,
    fingerprint: Fingerprint,
) -> F::Output
where
    F::Output: Send,
{
    let keeping = timeout(LIMIT, keep(guard, fingerprint));
    let (output, kept) = tokio::join!(handling, keeping);
    if !matches!(kept, Ok(Ok(()))) {
        tracing::debug!("a request was not kept for comparison");
    }
    output
}

async fn keep(guard: &Guard, fingerprint: Fingerprint) -> Result<()> {
    let Some(document) = &guard.document else {
        return Ok(());
    };
    let store = guard.idempotency.store();
    let retention = guard.engine.retention();
    let request = ClaimRequest::new(side_key(&guard.key, &fingerprint), fingerprint)
        .with_retention(retention);
    match store.claim(&request).await? {
        ClaimOutcome::Acquired(claim) => {
            let kept = Response::json(document)?;
            store.complete(&claim, &kept, retention).await
        }
        // An earlier attempt of the same request has kept it.
        _ => Ok(()),
    }
}

/// Returns how this request differs from the first one, if both were kept.
pub(crate) async fn differences(guard: &Guard, conflict: &Conflict) -> Option<Differences> {
    let this = guard.document.as_ref()?;
    let kept = guard.policy.kept_requests.as_ref()?;
    let key = side_key(&guard.key, &conflict.info.fingerprint);
    let found = timeout(LIMIT, guard.idempotency.store().get(&key)).await;
    let Ok(Ok(Some(Record::Completed(record)))) = found else {
        return None;
    };
    // The limit may have been higher when the first one was kept.
    if record.response.body().len() > kept.max_bytes {
        return None;
    }
    let first = kept.masked(record.response.from_json().ok()?);
    Some(differences::between(&first, this))
}

/// Returns the key under which a request with this fingerprint is kept. After a release, another
/// request may use the same key, so the fingerprint is part of it.
fn side_key(key: &Key, fingerprint: &Fingerprint) -> Key {
    key.derive(&format!("idem-http/request/{fingerprint}"))
}
