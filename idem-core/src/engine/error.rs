//! [`RunError`]: why a run has no sealed value.

use std::fmt;
use std::time::Duration;

use crate::{Conflict, Error, Failed, InFlight};

/// Why a run gave no sealed value: `E` is the work's error, `T` its value. The guide says
/// [what to do](crate::guide::errors#errors-of-runs) about each.
///
/// `Debug` and `Display` show neither the value, nor stored data, nor the text of a store's or
/// codec's source. The work's own error is shown by its own `Debug` and `Display`, so the
/// application decides what they reveal.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E, T> {
    /// The key is in use for a different request. The work was not started; nothing was changed.
    #[error("the idempotency key is in use for a different request")]
    Conflict(Conflict),

    /// Another run works on this request: the caller is refused, or the wait's limit has passed.
    /// See [`retry_after`](Self::retry_after).
    #[error("the request is being worked on by another caller")]
    InFlight(InFlight),

    /// The request failed before, for good, and this is its failure. The work was not started.
    #[error("the request failed before, recorded as `{}`", .0.failure.code())]
    Failed(Failed),

    /// The work returned this error in this call. The claim is released or the failure recorded, as
    /// the policy says; where the store could not be reached, the lease runs out.
    #[error(transparent)]
    Work(E),

    /// The store gave no decision, so the work was not started. After an unknown
    /// [`effect`](Error::effect) the key may stay claimed until the lease ends. With the kind
    /// [`Contention`](crate::ErrorKind::Contention) an open transaction holds the key: another
    /// caller works under it.
    #[error("the store gave no decision, the work was not started")]
    Store(#[source] Error),

    /// The work has run and this is its value, but it is unknown whether the value is stored, so a
    /// retry may not find it.
    ///
    /// The source says why: `ClaimLost` (another attempt has acquired the key, or `fail_abandoned`
    /// has failed it; the work may have run twice), `Misconfigured` (the policy demands that work
    /// [commits](crate::Work::commit) its result, and this did not), `InvalidInput` (too large, or no JSON form that
    /// reads back as the value; later callers get
    /// [`Failure::NOT_STORED`](crate::Failure::NOT_STORED)), or the store could not be reached for
    /// long.
    #[error("the work has run, but its result is not known to be stored")]
    NotStored {
        /// The work's value.
        value: T,
        /// Why it is not known to be stored.
        source: Error,
    },

    /// The stored response cannot be read as `T`: another version of the program, or another
    /// operation, wrote it. The work was not started.
    #[error("the stored response cannot be read as this operation's result")]
    Codec(#[source] Error),
}

impl<E, T> RunError<E, T> {
    /// Returns whether the work ran in this call.
    #[must_use]
    pub fn has_run(&self) -> bool {
        matches!(self, Self::Work(_) | Self::NotStored { .. })
    }

    /// Returns when to send the claim again, for a request that is being worked on: when the
    /// worker's lease ends. The result may be there sooner; and a lease is renewed as long as the
    /// work runs.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::InFlight(in_flight) => Some(in_flight.lease_remaining()),
            _ => None,
        }
    }

    /// Returns the work's error, if it is that.
    #[must_use]
    pub fn into_work(self) -> Option<E> {
        match self {
            Self::Work(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the value of work that has run without being sealed.
    #[must_use]
    pub fn into_unsealed(self) -> Option<T> {
        match self {
            Self::NotStored { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Returns the error of the store or the codec, if there is one.
    #[must_use]
    pub fn store_error(&self) -> Option<&Error> {
        match self {
            Self::Store(error) | Self::Codec(error) | Self::NotStored { source: error, .. } => {
                Some(error)
            }
            Self::Conflict(_) | Self::InFlight(_) | Self::Failed(_) | Self::Work(_) => None,
        }
    }

    /// Maps the work's error: for errors such as `anyhow::Error` that do not implement
    /// [`std::error::Error`] themselves.
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
