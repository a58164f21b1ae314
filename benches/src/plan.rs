//! [`Plan`]: how often and for how long.

use std::time::Duration;

/// How often each contender of a group has its turn, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Turns that count.
    pub repetitions: usize,
    /// The length of one.
    pub round: Duration,
    /// The length of the first, which does not count.
    pub warm_up: Duration,
    /// Whether only what is needed for a first impression is measured: fewer concurrencies, sizes
    /// and rows.
    pub quick: bool,
}

impl Plan {
    /// Five turns of 350 ms, all there is to measure.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            repetitions: 5,
            round: Duration::from_millis(350),
            warm_up: Duration::from_millis(120),
            quick: false,
        }
    }

    /// Three turns of 150 ms, and fewer of everything.
    #[must_use]
    pub const fn quick() -> Self {
        Self {
            repetitions: 3,
            round: Duration::from_millis(150),
            warm_up: Duration::from_millis(60),
            quick: true,
        }
    }

    /// Of two lists that of this plan.
    #[must_use]
    pub fn pick<T: ?Sized>(self, full: &'static T, quick: &'static T) -> &'static T {
        if self.quick { quick } else { full }
    }
}
