//! [`RunError`]: why a run has no sealed value.

use std::fmt;
use std::time::Duration;

use crate::{Conflict, Error, Failed, InFlight};

/// Why a run gave no sealed value: `E` is the work's error, `T` its value.
///
/// `Debug` and `Display` show neither the value, nor what is stored, nor the text of a store's or
/// codec's source. The work's own error shows itself: what its `Debug` and `Display` say is the
/// application's to decide.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E, T> {
    /// The key is in use for a different request. The work was not started; nothing was changed.
    #[error("the idempotency key is in use for a different request")]
    Conflict(Conflict),

    /// Somebody else works on this request: refused, or the wait's limit has passed. See
    /// [`retry_after`](Self::retry_after).
    #[error("the request is being worked on by another caller")]
    InFlight(InFlight),

    /// The request failed before, for good, and that is its answer. The work was not started.
    #[error("the request failed before, recorded as `{}`", .0.failure.code())]
    Failed(Failed),

    /// The work answered with this error, now. The claim is released or the failure recorded, as
    /// the policy says; where the store could not be told, the lease runs out.
    #[error(transparent)]
    Work(E),

    /// The store gave no verdict, so the work was not started. After an unknown
    /// [`effect`](Error::effect) the key may be claimed in vain until the lease ends. With the kind
    /// [`Contention`](crate::ErrorKind::Contention) a transaction that is still open holds the key:
    /// somebody else is at work under it.
    #[error("the store gave no verdict, the work was not started")]
    Store(#[source] Error),

    /// The work has run and this is its value, but the value is not known to be stored, so that a
    /// retry may not find it.
    ///
    /// The source says why: `ClaimLost` (somebody else has acquired the key in between, or a sweep
    /// has failed it; the work may have run twice), `InvalidInput` (too large, or no JSON form that
    /// reads back as the value; later callers get
    /// [`Failure::UNSTORABLE`](crate::Failure::UNSTORABLE)), or the store could not be reached for
    /// long.
    #[error("the work has run, but its result is not known to be stored")]
    NotStored {
        /// The work's value.
        value: T,
        /// Why it is not known to be stored.
        source: Error,
    },

    /// The stored response cannot be read as `T`: it was written by another version of the program,
    /// or by another operation. The work was not started.
    #[error("the stored response cannot be read as this operation's result")]
    Codec(#[source] Error),
}

impl<E, T> RunError<E, T> {
    /// Whether the work ran in this call.
    #[must_use]
    pub fn has_run(&self) -> bool {
        matches!(self, Self::Work(_) | Self::NotStored { .. })
    }

    /// When to ask again, for a request that is being worked on: when the worker's lease ends. The
    /// result may be there sooner; and a lease is renewed as long as the work runs.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::InFlight(in_flight) => Some(in_flight.lease_remaining()),
            _ => None,
        }
    }

    /// The work's error, if it is that.
    #[must_use]
    pub fn into_work(self) -> Option<E> {
        match self {
            Self::Work(error) => Some(error),
            _ => None,
        }
    }

    /// The value of work that has run without being sealed.
    #[must_use]
    pub fn into_unsealed(self) -> Option<T> {
        match self {
            Self::NotStored { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The error of the store or the codec, if there is one.
    #[must_use]
    pub fn store_error(&self) -> Option<&Error> {
        match self {
            Self::Store(error) | Self::Codec(error) | Self::NotStored { source: error, .. } => {
                Some(error)
            }
            Self::Conflict(_) | Self::InFlight(_) | Self::Failed(_) | Self::Work(_) => None,
        }
    }

    /// The same with what `change` makes of the work's error: for errors such as `anyhow::Error`
    /// that are no [`std::error::Error`] themselves.
    #[must_use]
    pub fn map_work<F>(self, change: impl FnOnce(E) -> F) -> RunError<F, T> {
        match self {
            Self::Work(error) => RunError::Work(change(error)),
            Self::Conflict(conflict) => RunError::Conflict(conflict),
            Self::InFlight(in_flight) => RunError::InFlight(in_flight),
            Self::Failed(failed) => RunError::Failed(failed),
            Self::Store(error) => RunError::Store(error),
            Self::NotStored { value, source } => RunError::NotStored { value, source },
            Self::Codec(error) => RunError::Codec(error),
        }
    }
}

impl<E: fmt::Debug, T> fmt::Debug for RunError<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(conflict) => f.debug_tuple("Conflict").field(conflict).finish(),
            Self::InFlight(in_flight) => f.debug_tuple("InFlight").field(in_flight).finish(),
            Self::Failed(failed) => f.debug_tuple("Failed").field(failed).finish(),
            Self::Work(error) => f.debug_tuple("Work").field(error).finish(),
            Self::Store(error) => f.debug_tuple("Store").field(error).finish(),
            Self::NotStored { source, .. } => {
                let mut shown = f.debug_struct("NotStored");
                shown.field("source", source).finish_non_exhaustive()
            }
            Self::Codec(error) => f.debug_tuple("Codec").field(error).finish(),
        }
    }
}
