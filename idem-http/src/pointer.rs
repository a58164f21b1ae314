//! [`Pointer`]: a JSON Pointer of a policy.

use std::fmt;

/// A JSON Pointer (RFC 6901). One that does not begin with `/` is read as if it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer(String);

impl Pointer {
    pub(crate) fn new(text: &str) -> Self {
        match text.is_empty() || text.starts_with('/') {
            true => Self(text.to_owned()),
            false => Self(format!("/{text}")),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the names on the way to the value.
    pub(crate) fn steps(&self) -> Vec<String> {
        let steps = self.0.split('/').skip(1);
        steps
            .map(|step| step.replace("~1", "/").replace("~0", "~"))
            .collect()
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
