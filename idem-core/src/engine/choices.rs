//! The options that a [`Policy`](super::Policy) chooses between.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration_text;

/// What a caller does when another run already works on the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusyPolicy {
    /// The caller is refused at once with [`RunError::InFlight`](super::RunError::InFlight).
    ///
    /// A key that an open transaction holds has no visible record yet. The run repeats its claim
    /// for the policy's [retry time-out](super::Policy::with_retry_timeout), then ends with
    /// [`RunError::Store`](super::RunError::Store) and
    /// [`Contention`](crate::ErrorKind::Contention).
    ///
    /// The default, because a waiting caller holds its connection and its memory without any
    /// progress, and only it knows how long that is worth while. Retry storms consist of waiting
    /// callers.
    #[default]
    Refuse,
    /// The caller waits for the result up to the limit, and then is refused. It waits in the same
    /// way for the end of a transaction that holds the key.
    ///
    /// The limit bounds the pauses; the answer of a store call that is under way when it passes
    /// still counts.
    Wait {
        /// The longest wait.
        #[serde(with = "duration_text")]
        limit: Duration,
    },
}

impl BusyPolicy {
    /// Returns [`Wait`](Self::Wait) with this limit.
    #[must_use]
    pub fn wait(limit: Duration) -> Self {
        Self::Wait { limit }
    }
}

/// What keeps others from a key while the work of [`run_in`](crate::Idempotency::run_in) runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exclusion {
    /// A lock of the transaction: across all processes, one work runs at a time.
    #[default]
    Exclusive,
    /// Nothing but the record's unique key, at the end: faster. Within a process, one work runs at
    /// a time. Of two processes that work at once, one commits; the other's transaction is rolled
    /// back, and its caller gets the winner's result. On PostgreSQL; elsewhere as `Exclusive`.
    Optimistic,
}

/// What becomes of the claim when the work returns an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorPolicy {
    /// It is released: the next caller runs the work again.
    #[default]
    Release,
    /// The error's text is recorded as [`Failure::FAILED`](crate::Failure::FAILED), and replayed to
    /// later callers.
    Record,
    /// Nothing is done: the lease runs out, and the stale policy decides. A takeover then begins
    /// with the work's last [checkpoint](crate::Work::checkpoint); until then the work rests.
    LetExpire,
}

/// What becomes of the claim when the work is interrupted: dropped by its caller, or by a panic.
///
/// The engine cannot know how far the work got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptPolicy {
    /// It is released: the next caller runs the work again.
    #[default]
    Release,
    /// It is recorded as [`Failure::CANCELLED`](crate::Failure::CANCELLED) or
    /// [`Failure::PANICKED`](crate::Failure::PANICKED), and replayed to later callers.
    Record,
    /// Nothing is done: the lease runs out, and the stale policy decides. This keeps other callers
    /// away for the rest of the lease, for work that goes on for a while outside this process.
    LetExpire,
}
