//! The measured operations: each once for the store and once by hand.

mod bare;
mod http;
mod keys;
mod store;

use std::future::Future;

pub(crate) use bare::{Bare, BareStart, Connections};
pub(crate) use http::Posts;
pub(crate) use keys::Keys;
pub(crate) use store::{Calls, ClaimReplay, ColdStart, Crowd, Run};

use idem_core::{BoxError, Response};

use crate::ids::response;

/// An operation that each of many callers repeats with one key after the other, waiting for each
/// answer.
///
/// It is not object safe, so that nothing is boxed per step that an application does not box.
pub(crate) trait Operation: Send + Sync + 'static {
    /// The state of one caller, kept from round to round.
    type Connection: Send + 'static;

    /// Returns how many tasks represent callers at most: more callers share them.
    fn most_tasks(&self) -> usize {
        usize::MAX
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

/// An [`Operation`] whose callers keep nothing from step to step.
pub(crate) trait Call: Send + Sync + 'static {
    /// As [`Operation::most_tasks`].
    const MOST_TASKS: usize = usize::MAX;

    /// Runs one operation on the key with this id; timed.
    fn call(&self, id: &str) -> impl Future<Output = Result<(), BoxError>> + Send;
}

impl<C: Call> Operation for C {
    type Connection = ();

    fn most_tasks(&self) -> usize {
        C::MOST_TASKS
    }

    async fn connect(&self) -> Result<(), BoxError> {
        Ok(())
    }

    async fn step(&self, (): &mut (), id: &str) -> Result<(), BoxError> {
        self.call(id).await
    }
}

/// What is done with one key: by the store, as bare statements, and by load generators.
#[derive(Debug, Clone)]
pub(crate) enum Life {
    /// A claim of a fresh key; an insert.
    Claim,
    /// A claim of a fresh key and its completion; an insert, then an update with the response.
    Complete(Response),
    /// A claim of a completed key; a read by primary key.
    Replay,
}

impl Life {
    /// Returns the whole life of a key, with the response of all benchmarks.
    pub(crate) fn complete() -> Self {
        Self::Complete(response())
    }
}
