//! What is measured: each once for the store and once by hand.

mod bare;
mod engine;
mod keys;
mod store;

use std::future::Future;

pub(crate) use bare::{BareClaims, BareSelect, BareStart, Connections};
pub(crate) use engine::Run;
pub(crate) use keys::{Keys, Turns};
pub(crate) use store::{ClaimReplay, Claims, ColdStart, Crowd, Replay};

use idem_core::BoxError;

/// What each of many callers does with one key after the other, waiting for each answer.
///
/// Not object safe, so that nothing is boxed per step that an application does not box.
pub(crate) trait Operation: Send + Sync + 'static {
    /// What one caller has of its own. Kept from round to round.
    type Connection: Send + 'static;

    /// How many tasks stand for so many callers. Fewer where callers share connections.
    fn tasks(&self, callers: usize) -> usize {
        callers
    }

    /// Connects a caller; not timed.
    fn connect(&self) -> impl Future<Output = Result<Self::Connection, BoxError>> + Send;

    /// One operation on the key with this id; timed.
    fn step(
        &self,
        connection: &mut Self::Connection,
        id: &str,
    ) -> impl Future<Output = Result<(), BoxError>> + Send;
}
