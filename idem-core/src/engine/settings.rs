//! Settings of an [`Idempotency`].

use std::sync::Arc;

#[cfg(any(feature = "toml", feature = "yaml"))]
use super::PolicyFile;
use super::observe::Observer;
use super::policies::LivePolicies;
use super::{Idempotency, Policies, Policy};
use crate::{Key, Result};

impl Idempotency {
    /// Sets the policy of all operations that have none of their own.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        self.with_changed_policies(|policies| policies.with_default(policy))
    }

    /// Sets the policy of one operation, by the name in its keys, or of all operations with the
    /// prefix before a final `*`.
    #[must_use]
    pub fn with_operation_policy(self, operation: impl Into<String>, policy: Policy) -> Self {
        self.with_changed_policies(|policies| policies.with_operation(operation, policy))
    }

    /// Replaces all policies.
    #[must_use]
    pub fn with_policies(self, policies: Policies) -> Self {
        self.with_changed_policies(|_| policies)
    }

    /// Follows the policies of this file, also after it is reloaded. A later setting in code
    /// applies to a copy, which no longer follows the file; to put settings under the file, pass
    /// them to [`load_over`](PolicyFile::load_over).
    #[cfg(any(feature = "toml", feature = "yaml"))]
    #[must_use]
    pub fn with_policy_file(mut self, file: &PolicyFile) -> Self {
        Arc::make_mut(&mut self.shared).policies = file.live();
        self
    }

    /// Adds an observer of runs.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer) -> Self {
        let shared = Arc::make_mut(&mut self.shared);
        let observer: Arc<dyn Observer> = Arc::new(observer);
        let all = shared.observers.iter().cloned().chain([observer]);
        shared.observers = all.collect();
        self
    }

    /// Changes a copy that no longer follows its original.
    fn with_changed_policies(mut self, change: impl FnOnce(Policies) -> Policies) -> Self {
        let policies = change((*self.policies()).clone());
        Arc::make_mut(&mut self.shared).policies = LivePolicies::new(policies);
        self
    }

    /// Returns the policies for runs that start now.
    #[must_use]
    pub fn policies(&self) -> Arc<Policies> {
        self.shared.policies.get()
    }

    /// Sets other policies for the runs that start from now on, here and in every clone. A run that
    /// is under way keeps the policy that it started with.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a policy that the store would not
    /// accept; nothing is changed then.
    pub fn set_policies(&self, policies: Policies) -> Result<()> {
        policies.check(&self.store().limits())?;
        self.shared.policies.set(policies);
        Ok(())
    }

    /// Returns the policy that a run of this key follows, if it starts now.
    #[must_use]
    pub fn policy_for(&self, key: &Key) -> Arc<Policy> {
        Arc::clone(self.policies().policy_for(key.operation()))
    }
}
