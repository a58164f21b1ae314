//! [`Version`]: which state of what an event tells of.

use std::fmt;

/// Which state of what an event tells of: events of one source with a lower number are refused once
/// a higher one was seen.
///
/// `Debug` shows the number only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version {
    source: String,
    number: u64,
}

impl Version {
    /// `source` names the thing (`issue/444500041`); `number` grows with its state: a sequence, or
    /// a time of change in whatever unit. Events of one number are all handled. At most
    /// [`MAX_VERSION`](idem_core::limits::MAX_VERSION).
    #[must_use]
    pub fn new(source: impl Into<String>, number: u64) -> Self {
        Self {
            source: source.into(),
            number,
        }
    }

    /// What it is the state of.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
