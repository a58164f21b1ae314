//! [`Ending`]: how a claim ends.

use super::InterruptPolicy;
use crate::{Failure, Response};

/// How a claim ends.
#[derive(Debug, Clone)]
pub(super) enum Ending {
    Complete(Response),
    /// Completed already, in a transaction of the work.
    Sealed(Response),
    Fail(Failure),
    /// With a failure that says that the work has run and its result is not stored.
    NotStored,
    Release,
    LetExpire,
}

impl Ending {
    /// Returns the name of the store call that it needs.
    pub(super) fn call(&self) -> &'static str {
        match self {
            Self::Complete(_) => "complete",
            Self::Fail(_) | Self::NotStored => "fail",
            Self::Release => "release",
            Self::Sealed(_) | Self::LetExpire => "",
        }
    }

    /// Returns how the run's other claims end.
    pub(super) fn of_followers(&self) -> Self {
        match self {
            Self::Sealed(response) => Self::Complete(response.clone()),
            ending => ending.clone(),
        }
    }

    /// Returns the ending that the policy for an interruption leads to.
    pub(super) fn interrupted(policy: InterruptPolicy, failure: impl FnOnce() -> Failure) -> Self {
        match policy {
            InterruptPolicy::Release => Self::Release,
            InterruptPolicy::Record => Self::Fail(failure()),
            InterruptPolicy::LetExpire => Self::LetExpire,
        }
    }

    /// Returns the same in the form for the store. Most runs prepare for
    /// [`NotStored`](Self::NotStored) without ending so.
    pub(super) fn with_failure(self) -> Self {
        match self {
            Self::NotStored => Self::Fail(Failure::new(
                Failure::NOT_STORED,
                "the work has run, but its result could not be stored",
            )),
            ending => ending,
        }
    }
}
