//! What a [`Policy`](super::Policy) chooses between.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration_text;

/// What a caller does that finds the request being worked on by somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusyPolicy {
    /// It is refused at once with [`RunError::InFlight`](super::RunError::InFlight).
    ///
    /// A key that a transaction holds which is still open has no record yet that could be shown.
    /// The store is asked again for the policy's [patience](super::Policy::with_patience), then the
    /// run ends with [`RunError::Store`](super::RunError::Store) and
    /// [`Contention`](crate::ErrorKind::Contention).
    ///
    /// The default, because a caller that waits holds its connection and its memory while it learns
    /// nothing, and only it knows for how long that is worth while: retry storms are made of
    /// callers that wait.
    #[default]
    Refuse,
    /// It waits for the result, at most so long, and is refused then; so it does for the end of a
    /// transaction that holds the key.
    ///
    /// The limit bounds the pauses; a call of the store that is under way when it passes is still
    /// heard.
    Wait {
        /// The longest wait.
        #[serde(with = "duration_text")]
        limit: Duration,
    },
}

impl BusyPolicy {
    /// [`Wait`](Self::Wait) at most so long.
    #[must_use]
    pub fn wait(limit: Duration) -> Self {
        Self::Wait { limit }
    }
}

/// What becomes of the claim when the work answers with an error.
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
    /// with the work's last [checkpoint](crate::Work::checkpoint), and until then the work rests.
    LetExpire,
}

/// What becomes of the claim when the work is interrupted: dropped by its caller, or by a panic.
///
/// How far the work got is then not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptPolicy {
    /// It is released: the next caller runs the work again.
    #[default]
    Release,
    /// It is recorded as [`Failure::CANCELLED`](crate::Failure::CANCELLED) or
    /// [`Failure::PANICKED`](crate::Failure::PANICKED), and replayed to later callers.
    Record,
    /// Nothing is done: the lease runs out, and the stale policy decides. This keeps others away
    /// for the rest of the lease, for work that goes on for a while somewhere else.
    LetExpire,
}
