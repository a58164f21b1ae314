//! [`Observer`].

use std::fmt;
use std::time::Duration;

use super::{Decision, Ended, LeaseLoss, Retry};
use crate::Key;

/// Hears what becomes of runs.
///
/// Called in the midst of runs, by many at once: an observer is quick and does not block. What it
/// hears changes nothing.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// A run knows what it is to do. One that is dropped before is not heard of.
    fn decided(&self, _key: &Key, _decision: Decision) {}

    /// A claim has ended, also where the run was dropped.
    fn ended(&self, _key: &Key, _ended: &Ended) {}

    /// A claim was lost while its work ran.
    fn lease_lost(&self, _key: &Key, _loss: LeaseLoss) {}

    /// A call of the store is repeated.
    fn retried(&self, _key: &Key, _retry: Retry) {}

    /// A run begins to wait for another's result.
    fn wait_began(&self, _key: &Key) {}

    /// It waits no longer; told for each that began, in whatever way it ended.
    fn wait_ended(&self, _key: &Key, _waited: Duration) {}

    /// Returns the span that encloses a run; of several observers the first one that has one gives
    /// it.
    #[cfg(feature = "tracing")]
    fn span(&self, _key: &Key) -> tracing::Span {
        tracing::Span::none()
    }
}
