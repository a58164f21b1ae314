//! A clock that tests set.

use idem_webhooks::Clock;

/// The time that a test has set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedClock(u64);

impl FixedClock {
    pub(crate) fn at(seconds: u64) -> Self {
        Self(seconds)
    }
}

impl Clock for FixedClock {
    fn unix_seconds(&self) -> u64 {
        self.0
    }
}
