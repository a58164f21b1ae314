//! [`Version`]: the source of an event, and the number of the state that it describes.

use std::fmt;

/// The source of an event, and the number of the state that it describes. Once a receiver has seen
/// a number, it refuses events of that source with a lower one.
///
/// `Debug` shows only the number.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version {
    source: String,
    number: u64,
}

impl Version {
    /// Creates a version. `source` names the thing (`issue/444500041`); `number` grows with its
    /// state: a sequence, or a time of change in any unit. Events with the same number are all
    /// handled. At most [`MAX_VERSION`](idem_core::limits::MAX_VERSION).
    #[must_use]
    pub fn new(source: impl Into<String>, number: u64) -> Self {
        Self {
            source: source.into(),
            number,
        }
    }

    /// Returns the source.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the number.
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
