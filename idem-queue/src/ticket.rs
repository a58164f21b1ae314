//! [`Ticket`]: what a queued job carries.

use std::fmt;

use idem_core::{Claim, Fingerprint};
use serde::{Deserialize, Serialize};

/// The claim of a job that waits, to be put into the queue with it.
///
/// `Debug` shows no key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub(crate) job: String,
    pub(crate) claim: Claim,
    pub(crate) fingerprint: Fingerprint,
}

impl Ticket {
    /// The job's id.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The claim.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }
}

/// What became of a job that was to be enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// It is in the queue, with this ticket.
    New(Ticket),
    /// There is such a job: it waits, runs, or was done within the window.
    Duplicate {
        /// That job's id.
        job: String,
        /// Whether it is done.
        is_done: bool,
    },
}

/// What became of a job that was taken from the queue.
///
/// `Debug` does not show the value.
#[derive(Clone, PartialEq, Eq)]
pub enum Ran<T> {
    /// It was done, now or by another delivery of the same message.
    Done(T),
    /// It had waited for too long, or was cancelled, and others may have taken its place: drop it.
    Superseded,
}

impl<T> fmt::Debug for Ran<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(_) => f.debug_tuple("Done").finish_non_exhaustive(),
            Self::Superseded => f.write_str("Superseded"),
        }
    }
}
