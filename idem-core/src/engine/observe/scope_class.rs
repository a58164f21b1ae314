//! [`ScopeClass`]: maps scopes, of which there are many, to classes, of which there are few.

use std::fmt;
use std::sync::Arc;

/// A function from a scope to its class.
#[derive(Clone)]
pub(super) struct ScopeClass(Arc<dyn Fn(&str) -> &'static str + Send + Sync>);

impl ScopeClass {
    pub(super) fn by(class: impl Fn(&str) -> &'static str + Send + Sync + 'static) -> Self {
        Self(Arc::new(class))
    }

    pub(super) fn of(&self, scope: &str) -> &'static str {
        (self.0)(scope)
    }
}

impl Default for ScopeClass {
    fn default() -> Self {
        Self::by(|_| "all")
    }
}

impl fmt::Debug for ScopeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeClass(..)")
    }
}
