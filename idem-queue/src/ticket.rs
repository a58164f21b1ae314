//! [`Ticket`]: the claim that travels with a queued job.

use std::fmt;

use idem_core::{Claim, Fingerprint};
use serde::{Deserialize, Serialize};

/// The claim of a waiting job, which travels through the queue with it.
///
/// `Debug` shows no key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub(crate) job: String,
    pub(crate) claim: Claim,
    pub(crate) fingerprint: Fingerprint,
}

impl Ticket {
    /// Returns the job's id.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Returns the claim.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }
}

/// What became of a job to enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    /// It is in the queue, with this ticket.
    New(Ticket),
    /// The intent already has a job: it waits, runs, or was done within the window.
    Duplicate {
        /// That job's id.
        job: String,
        /// Whether it is done.
        is_done: bool,
    },
}

/// What became of a job taken from the queue.
///
/// `Debug` does not show the value.
#[derive(Clone, PartialEq, Eq)]
pub enum Ran<T> {
    /// The job is done, by this or another delivery of the same message.
    Done(T),
    /// It waited for too long or was cancelled, and another job may have replaced it: drop it.
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
