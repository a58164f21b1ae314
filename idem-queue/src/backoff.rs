//! [`Backoff`]: how long a message rests before it is tried again.

use std::time::Duration;

/// Delays that double with each delivery up to a longest one. Each is drawn at random between half
/// and all of its length, so that messages that failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// Delays from `first` to `longest`.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// Returns the delay after this many deliveries, the first being 1.
    #[must_use]
    pub fn after(&self, deliveries: u64) -> Duration {
        let doublings = u32::try_from(deliveries.saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let delay = self.first.saturating_mul(factor).min(self.longest);
        let half = delay / 2;
        let more = half.mul_f64(rand::random_range(0.0..=1.0));
        half.saturating_add(more)
    }
}

impl Default for Backoff {
    /// From one second to five minutes.
    fn default() -> Self {
        Self::new(Duration::from_secs(1), Duration::from_secs(5 * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let backoff = Backoff::default();
        for (deliveries, seconds) in [(0, 1), (1, 1), (2, 2), (5, 16), (10, 300), (u64::MAX, 300)] {
            let (delay, full) = (backoff.after(deliveries), Duration::from_secs(seconds));
            assert!(
                delay <= full && delay >= full / 2,
                "{deliveries}: {delay:?}"
            );
        }
    }

    #[test]
    fn no_delay_is_too_long() {
        let backoff = Backoff::new(Duration::MAX, Duration::MAX);
        for deliveries in [0, 1, 2, u64::MAX] {
            assert!(backoff.after(deliveries) >= Duration::MAX / 2 - Duration::from_secs(1));
        }
    }
}
