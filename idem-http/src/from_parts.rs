//! [`FromParts`]: a function of a request's head.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;

/// A shared function of a request's head.
pub(crate) struct FromParts<T>(Arc<dyn Fn(&Parts) -> T + Send + Sync>);

impl<T> FromParts<T> {
    pub(crate) fn new(function: impl Fn(&Parts) -> T + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    pub(crate) fn of(&self, parts: &Parts) -> T {
        (self.0)(parts)
    }
}

impl<T> Clone for FromParts<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for FromParts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a function of the request")
    }
}
