//! [`RequestScope`]: the scope of a request's key.

use actix_web::dev::ServiceRequest;
use http::request::Parts;
use idem_http::{ScopeError, ScopeExtractor};

/// Extracts the scope of a request: the account, tenant or API key that it was *authenticated* as.
///
/// A key is only looked up within its scope, so a client that may choose its scope freely can read
/// the responses of others. Take the scope from the request's extensions, where the authentication
/// has put it, not from an unchecked header.
///
/// A closure that returns `None` for an unknown caller is an extractor: such requests get `403`.
/// There is no default; a service without callers returns a constant. The middleware calls it for
/// every request, and ignores the result where the request has no key.
pub trait RequestScope: Send + Sync + 'static {
    /// Returns the scope of this request: 1 to 255 bytes without control characters.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] when there is none: the request is refused and nothing runs.
    fn scope(&self, request: &ServiceRequest) -> Result<String, ScopeError>;
}

impl<F> RequestScope for F
where
    F: Fn(&ServiceRequest) -> Option<String> + Send + Sync + 'static,
{
    fn scope(&self, request: &ServiceRequest) -> Result<String, ScopeError> {
        self(request).ok_or(ScopeError::Unknown)
    }
}

/// The scope of a request, in the extensions of the request that the rules of `idem-http` see.
#[derive(Clone)]
pub(crate) struct Scope(pub(crate) Result<String, ScopeError>);

/// Reads the scope from the extensions.
pub(crate) struct FromExtensions;

impl ScopeExtractor for FromExtensions {
    fn scope(&self, parts: &Parts) -> Result<String, ScopeError> {
        let scope = parts.extensions.get::<Scope>();
        scope.map_or(Err(ScopeError::Misconfigured), |scope| scope.0.clone())
    }
}
