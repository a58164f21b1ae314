//! [`ScopeExtractor`]: the scope of a request's key.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderValue;
use http::request::Parts;
use idem_core::{Error, Result as StoreResult};
use sha2::Sha256;

/// Extracts the scope of a request: the account, tenant or API key that it was *authenticated* as.
///
/// A key is only looked up within its scope, so a client that may choose its scope freely can read
/// the responses of others. Take the scope from the request's extensions, where the authentication
/// has put it, not from an unchecked header.
///
/// A closure that returns `None` for an unknown caller is an extractor: such requests get `403`.
/// There is no default; a service without callers returns a constant.
pub trait ScopeExtractor: Send + Sync + 'static {
    /// Returns the scope of this request: 1 to 255 bytes without control characters.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] when there is none: the request is refused and nothing runs.
    fn scope(&self, parts: &Parts) -> Result<String, ScopeError>;
}

impl<F> ScopeExtractor for F
where
    F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
{
    fn scope(&self, parts: &Parts) -> Result<String, ScopeError> {
        self(parts).ok_or(ScopeError::Unknown)
    }
}

/// Fewest bytes of a secret that scopes are hashed with.
const MIN_SECRET_BYTES: usize = 16;

/// A secret that scopes are hashed with.
#[derive(Clone)]
pub(crate) struct ScopeSecret(Hmac<Sha256>);

impl ScopeSecret {
    pub(crate) fn new(secret: &[u8]) -> StoreResult<Self> {
        let mac = Hmac::<Sha256>::new_from_slice(secret).ok();
        let mac = mac.filter(|_| secret.len() >= MIN_SECRET_BYTES);
        mac.map(Self).ok_or_else(|| {
            Error::invalid_input(format!(
                "a secret for scopes has {} bytes; it needs {MIN_SECRET_BYTES} or more",
                secret.len()
            ))
        })
    }

    /// Returns `h1:` and 64 hexadecimal digits. An empty scope stays empty, and is refused.
    pub(crate) fn hash(&self, scope: String) -> String {
        if scope.is_empty() {
            return scope;
        }
        let mut mac = self.0.clone();
        mac.update(b"idem/scope/1");
        mac.update(scope.as_bytes());
        let mut text = "h1:".to_owned();
        for byte in mac.finalize().into_bytes() {
            // A text takes every write.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

/// Why a request has no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// The caller is not known: `403`.
    #[error("the caller is not known")]
    Unknown,
    /// The caller has to authenticate in this way: `401` with this as `WWW-Authenticate`.
    #[error("the caller has to authenticate")]
    Unauthenticated(HeaderValue),
    /// The authentication has not left the expected value: `500`.
    #[error("the authentication left no scope")]
    Misconfigured,
}
