//! [`Outcome`]: a value, and whether it is new.

use std::fmt;

use crate::Timestamp;

/// The value of a run, and whether the work ran for it now.
///
/// `Debug` does not show the value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome<T> {
    /// The work ran now, in this call.
    Fresh(T),
    /// The work ran before: this is its stored result.
    Replayed {
        /// The result.
        value: T,
        /// When it was sealed, by the store's clock.
        sealed_at: Timestamp,
    },
}

impl<T> Outcome<T> {
    /// Returns the value, fresh or not.
    pub fn into_inner(self) -> T {
        match self {
            Self::Fresh(value) | Self::Replayed { value, .. } => value,
        }
    }

    /// Returns the value, if the work ran before and not now.
    pub fn into_replayed(self) -> Option<T> {
        match self {
            Self::Fresh(_) => None,
            Self::Replayed { value, .. } => Some(value),
        }
    }

    /// Returns whether the work ran before and not now.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        matches!(self, Self::Replayed { .. })
    }

    /// Returns when a replay was first answered; `None` for a fresh value, whose time is now.
    #[must_use]
    pub fn first_answered_at(&self) -> Option<Timestamp> {
        match self {
            Self::Fresh(_) => None,
            Self::Replayed { sealed_at, .. } => Some(*sealed_at),
        }
    }

    /// Returns the same outcome with a reference to the value.
    #[must_use]
    pub fn as_ref(&self) -> Outcome<&T> {
        match self {
            Self::Fresh(value) => Outcome::Fresh(value),
            Self::Replayed { value, sealed_at } => Outcome::Replayed {
                value,
                sealed_at: *sealed_at,
            },
        }
    }

    /// Maps the value with `change`.
    #[must_use]
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Fresh(value) => Outcome::Fresh(change(value)),
            Self::Replayed { value, sealed_at } => Outcome::Replayed {
                value: change(value),
                sealed_at,
            },
        }
    }
}

impl<T> fmt::Debug for Outcome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fresh(_) => f.debug_tuple("Fresh").finish_non_exhaustive(),
            Self::Replayed { sealed_at, .. } => f
                .debug_struct("Replayed")
                .field("sealed_at", sealed_at)
                .finish_non_exhaustive(),
        }
    }
}
