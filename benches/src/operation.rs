//! [`Operation`]: what each caller does again and again.

use std::future::Future;

use idem_core::BoxError;

/// What each of many callers does again and again, each waiting for its answer before it asks anew.
///
/// Not object safe, so that nothing is boxed per step that would not be boxed in an application.
pub trait Operation: Send + Sync + 'static {
    /// What one caller has of its own: a connection, a series of keys. Kept from round to round.
    type Caller: Send + 'static;

    /// How many tasks stand for so many callers. Fewer, where callers share connections and more tasks would only
    /// wait for each other.
    fn tasks(&self, callers: usize) -> usize {
        callers
    }

    /// Makes the caller of this number; not timed.
    fn caller(&self, number: usize) -> impl Future<Output = Result<Self::Caller, BoxError>> + Send;

    /// One operation; timed.
    fn step(&self, caller: &mut Self::Caller) -> impl Future<Output = Result<(), BoxError>> + Send;
}
