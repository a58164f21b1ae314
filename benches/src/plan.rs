//! [`Plan`]: number and length of turns.

use std::time::Duration;

/// Number and length of the turns of each contender of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Number of turns that count.
    pub repetitions: usize,
    /// The length of a turn.
    pub round: Duration,
    /// The length of the first turn, which does not count.
    pub warm_up: Duration,
    /// Whether the run gives only a first impression: fewer concurrencies, sizes and rows.
    pub quick: bool,
}

impl Plan {
    /// Returns a full plan: five turns of 350 ms.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            repetitions: 5,
            round: Duration::from_millis(350),
            warm_up: Duration::from_millis(120),
            quick: false,
        }
    }

    /// Returns a quick plan: three turns of 150 ms, and fewer of everything.
    #[must_use]
    pub const fn quick() -> Self {
        Self {
            repetitions: 3,
            round: Duration::from_millis(150),
            warm_up: Duration::from_millis(60),
            quick: true,
        }
    }

    /// Returns the list for this plan.
    #[must_use]
    pub fn pick<T: ?Sized>(self, full: &'static T, quick: &'static T) -> &'static T {
        if self.quick { quick } else { full }
    }
}
