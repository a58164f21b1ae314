//! [`Outcome`]: a value, and whether it is new.

/// The value of a run, and whether the work ran for it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome<T> {
    /// The work ran now, in this call.
    Fresh(T),
    /// The work ran before: this is its stored result.
    Replayed(T),
}

impl<T> Outcome<T> {
    /// The value, fresh or not.
    pub fn into_inner(self) -> T {
        match self {
            Self::Fresh(value) | Self::Replayed(value) => value,
        }
    }

    /// Whether the work ran before and not now.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }

    /// The same with a reference to the value.
    #[must_use]
    pub fn as_ref(&self) -> Outcome<&T> {
        match self {
            Self::Fresh(value) => Outcome::Fresh(value),
            Self::Replayed(value) => Outcome::Replayed(value),
        }
    }

    /// The same with what `change` makes of the value.
    #[must_use]
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Fresh(value) => Outcome::Fresh(change(value)),
            Self::Replayed(value) => Outcome::Replayed(change(value)),
        }
    }
}
