//! [`ScopeExtractor`]: whose key it is.

use http::HeaderValue;
use http::request::Parts;

/// Tells on whose behalf a request is made: the account, tenant or API key that it was
/// *authenticated* as.
///
/// A key is only looked up within its scope, so a scope that a client may choose freely lets it
/// read the answers given to others. Take it from what the authentication left in the request's
/// extensions, not from a header that nobody checked.
///
/// A closure that gives `None` for a caller who is not known is an extractor: its requests are
/// refused with `403`. There is no default; a service without callers says so with a constant.
pub trait ScopeExtractor: Send + Sync + 'static {
    /// The scope of this request: 1 to 255 bytes without control characters.
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
    /// What the authentication should have left is not there: `500`.
    #[error("the authentication left no scope")]
    Misconfigured,
}
