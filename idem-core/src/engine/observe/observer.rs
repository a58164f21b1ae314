//! [`Observer`].

use std::fmt;
use std::time::Duration;

use super::{Decision, Ended, LeaseLoss, Retry};
use crate::Key;

/// Receives what happens to runs.
///
/// Runs call their observers concurrently and in between their own steps, so an observer must be
/// quick and must not block. It cannot change anything.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// A run has its decision. A run that is dropped before that is not reported.
    fn decided(&self, _key: &Key, _decision: Decision) {}

    /// A claim has ended, also where the run was dropped.
    fn ended(&self, _key: &Key, _ended: &Ended) {}

    /// A claim was lost while its work ran.
    fn lease_lost(&self, _key: &Key, _loss: LeaseLoss) {}

    /// An answer is not stored, so its key protects nothing or has no answer: see
    /// [`Idempotency::note_unstored`](crate::Idempotency::note_unstored).
    fn unstored(&self, _key: &Key, _reason: &'static str) {}

    /// A call of the store is repeated.
    fn retried(&self, _key: &Key, _retry: Retry) {}

    /// A run begins to wait for another's result.
    fn wait_began(&self, _key: &Key) {}

    /// A run waits no longer; called for each wait that began, however it ended.
    fn wait_ended(&self, _key: &Key, _waited: Duration) {}

    /// Returns the span that encloses a run; the first of several observers that has one provides
    /// it.
    #[cfg(feature = "tracing")]
    fn span(&self, _key: &Key) -> tracing::Span {
        tracing::Span::none()
    }
}
