//! The measured operations: each once for the store and once by hand.

mod bare;
mod store;

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

pub(crate) use bare::{Bare, BareStart, Connections};
pub(crate) use store::{Calls, ClaimReplay, ColdStart, ConcurrentClaims, Run};

use idem_core::{BoxError, Response};

use crate::ids::{fresh_id, response};

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

/// The calls for one key: of the store, of the bare statements, and of load generators.
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

/// The keys that callers use.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    /// A fresh key each time.
    Fresh,
    /// These keys, in turns; the number is that of the last.
    Used(Arc<[String]>, usize),
}

impl Keys {
    /// Returns `count` keys, after one operation on each.
    pub(crate) async fn used(operation: &impl Operation, count: usize) -> Result<Self, BoxError> {
        let keys = Self::Used((0..count).map(|_| fresh_id()).collect(), 0);
        keys.once_each(operation).await?;
        Ok(keys)
    }

    /// Does the operation once with each used key.
    pub(crate) async fn once_each(&self, operation: &impl Operation) -> Result<(), BoxError> {
        let mut connection = operation.connect().await?;
        if let Self::Used(ids, _) = self {
            for id in &**ids {
                operation.step(&mut connection, id).await?;
            }
        }
        Ok(())
    }

    /// Returns the turns of the caller with this number.
    pub(crate) fn turns(&self, number: usize) -> Self {
        match self {
            Self::Fresh => Self::Fresh,
            Self::Used(ids, _) => Self::Used(Arc::clone(ids), number),
        }
    }

    pub(crate) fn next_id(&mut self) -> Cow<'_, str> {
        match self {
            Self::Fresh => fresh_id().into(),
            Self::Used(ids, turn) => {
                *turn += 1;
                ids[*turn % ids.len()].as_str().into()
            }
        }
    }
}
