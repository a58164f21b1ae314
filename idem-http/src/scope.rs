//! [`ScopeExtractor`]: the scope of a request's key.

use http::HeaderValue;
use http::request::Parts;

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
