//! Instants and durations as stores keep them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant on a store's own clock, in whole microseconds since 1970-01-01T00:00:00Z.
///
/// Compare it only with other instants of the same store: the clock of this process never judges
/// one (law 9). Where a caller has to wait, records and claims return how long, as a [`Duration`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Returns the instant this many microseconds after 1970 began.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since 1970 began.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the time from `earlier` to this instant; zero if this one is not later.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// Adds the duration; returns the last possible instant if the sum is beyond it.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }
}

/// Returns the duration in microseconds, rounded up to a whole millisecond, as every store keeps
/// it.
#[must_use]
pub fn whole_millis_as_micros(duration: Duration) -> i64 {
    // Without a division of 128 bits, which takes ten times as long as the rest.
    let part = u128::from(duration.subsec_nanos().div_ceil(1_000_000));
    let millis = u128::from(duration.as_secs()) * 1000 + part;
    i64::try_from(millis).map_or(i64::MAX, |millis| millis.saturating_mul(1000))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up_to_whole_milliseconds() {
        assert_eq!(whole_millis_as_micros(Duration::from_nanos(1)), 1000);
        assert_eq!(whole_millis_as_micros(Duration::from_millis(5)), 5000);
        assert_eq!(whole_millis_as_micros(Duration::from_micros(5001)), 6000);
        assert_eq!(whole_millis_as_micros(Duration::MAX), i64::MAX);
    }

    #[test]
    fn differences_never_go_below_zero() {
        let (early, late) = (Timestamp::from_micros(10), Timestamp::from_micros(25));
        assert_eq!(late.saturating_since(early), Duration::from_micros(15));
        assert_eq!(early.saturating_since(late), Duration::ZERO);
    }
}
