//! [`Policies`]: a policy for each operation.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::super::Policy;
use crate::{Limits, Result};

/// A default policy, and others by operation.
///
/// A name that ends in `*` matches every operation that begins so. An exact name wins over a
/// prefix, and a longer prefix over a shorter one.
///
/// ```
/// use idem_core::{Policies, Policy};
///
/// let policies = Policies::new(Policy::default())
///     .with_operation("payments.*", Policy::api_write())
///     .with_operation("payments.capture", Policy::at_most_once());
/// assert_eq!(**policies.policy_for("payments.refund"), Policy::api_write());
/// assert_eq!(**policies.policy_for("payments.capture"), Policy::at_most_once());
/// assert_eq!(**policies.policy_for("reports"), Policy::default());
/// ```
///
/// With the features `toml` and `yaml` they can be read from files: see `PolicyFile` in
/// [`engine`](crate::engine).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policies {
    default: Arc<Policy>,
    exact: HashMap<String, Arc<Policy>>,
    /// By the text before the `*`, the longest first.
    prefixes: Vec<(String, Arc<Policy>)>,
}

impl Policies {
    /// Creates policies with this one for every operation.
    #[must_use]
    pub fn new(default: Policy) -> Self {
        Self {
            default: Arc::new(default),
            ..Self::default()
        }
    }

    /// Sets another policy for the operations that have none of their own.
    #[must_use]
    pub fn with_default(mut self, policy: Policy) -> Self {
        self.default = Arc::new(policy);
        self
    }

    /// Sets a policy for this operation, or for all operations with the prefix before a final `*`.
    #[must_use]
    pub fn with_operation(mut self, operation: impl Into<String>, policy: Policy) -> Self {
        let (mut operation, policy) = (operation.into(), Arc::new(policy));
        if operation.ends_with('*') {
            operation.pop();
            self.prefixes.retain(|(prefix, _)| *prefix != operation);
            self.prefixes.push((operation, policy));
            self.prefixes
                .sort_by(|(a, _), (b, _)| (Reverse(a.len()), a).cmp(&(Reverse(b.len()), b)));
        } else {
            self.exact.insert(operation, policy);
        }
        self
    }

    /// Returns the policy of the operations that have none of their own.
    #[must_use]
    pub fn default_policy(&self) -> &Arc<Policy> {
        &self.default
    }

    /// Returns the policy of this operation.
    #[must_use]
    pub fn policy_for(&self, operation: &str) -> &Arc<Policy> {
        let by_prefix = || {
            let mut prefixes = self.prefixes.iter();
            prefixes.find(|(prefix, _)| operation.starts_with(prefix.as_str()))
        };
        self.exact
            .get(operation)
            .or_else(|| by_prefix().map(|(_, policy)| policy))
            .unwrap_or(&self.default)
    }

    /// Returns each name that has a policy of its own, in no order; a name with `*` stands for many
    /// operations.
    pub fn operations(&self) -> impl Iterator<Item = (String, &Policy)> {
        let exact = self.exact.iter();
        let exact = exact.map(|(name, policy)| (name.clone(), &**policy));
        let prefixes = self.prefixes.iter();
        exact.chain(prefixes.map(|(prefix, policy)| (format!("{prefix}*"), &**policy)))
    }

    /// Checks that a store with these limits accepts the claims of each policy.
    ///
    /// # Errors
    ///
    /// As for [`Policy::check`].
    pub fn check(&self, limits: &Limits) -> Result<()> {
        self.default.check(limits)?;
        let by_operation = self.exact.values();
        let mut all = by_operation.chain(self.prefixes.iter().map(|(_, policy)| policy));
        all.try_for_each(|policy| policy.check(limits))
    }
}

impl From<Policy> for Policies {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}
