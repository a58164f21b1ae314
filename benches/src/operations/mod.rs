//! The measured operations: each once for the store and once by hand.

mod bare;
mod engine;
mod http;
mod keys;
mod store;

use std::future::Future;

pub(crate) use bare::{Bare, BareStart, Connections};
pub(crate) use engine::Run;
pub(crate) use http::Posts;
pub(crate) use keys::{Keys, Turns};
pub(crate) use store::{ClaimReplay, Claims, ColdStart, Crowd, Replay};

use idem_core::BoxError;

/// An operation that each of many callers repeats with one key after the other, waiting for each
/// answer.
///
/// It is not object safe, so that nothing is boxed per step that an application does not box.
pub(crate) trait Operation: Send + Sync + 'static {
    /// The state of one caller, kept from round to round.
    type Connection: Send + 'static;

    /// Returns how many tasks represent this many callers: fewer if callers share connections.
    fn tasks(&self, callers: usize) -> usize {
        callers
    }

    /// Connects a caller; not timed.
    fn connect(&self) -> impl Future<Output = Result<Self::Connection, BoxError>> + Send;

    /// Runs one operation on the key with this id; timed.
    fn step(
        &self,
        connection: &mut Self::Connection,
        id: &str,
    ) -> impl Future<Output = Result<(), BoxError>> + Send;
}
