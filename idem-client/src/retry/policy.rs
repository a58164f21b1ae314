//! [`RetryPolicy`]: the limits of the tries of one call.

use std::time::Duration;

use idem_core::backend::check;

/// The limits of the tries of one call.
///
/// The pause before a retry is drawn between zero and a limit that doubles from 100 ms to 10 s
/// (full jitter), so that clients that failed together do not come back together. `Retry-After`
/// adds to it. A call whose next try would begin after the deadline ends at once with the answer
/// that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    pub(crate) max_tries: u32,
    pub(crate) deadline: Duration,
    pub(crate) try_timeout: Duration,
    pub(crate) first_pause: Duration,
    pub(crate) max_pause: Duration,
}

impl RetryPolicy {
    /// 10 tries, the first included.
    pub const DEFAULT_MAX_TRIES: u32 = 10;
    /// A minute.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(60);
    /// 15 seconds.
    pub const DEFAULT_TRY_TIMEOUT: Duration = Duration::from_secs(15);
    /// 100 milliseconds.
    pub const DEFAULT_FIRST_PAUSE: Duration = Duration::from_millis(100);
    /// 10 seconds.
    pub const DEFAULT_MAX_PAUSE: Duration = Duration::from_secs(10);

    /// Sends once: no answer is worth a second try. The key is kept all the same.
    #[must_use]
    pub fn once() -> Self {
        Self::default().with_max_tries(1)
    }

    /// Sets the most tries of a call, the first included. Default: 10. Zero counts as 1.
    #[must_use]
    pub fn with_max_tries(mut self, tries: u32) -> Self {
        self.max_tries = tries.max(1);
        self
    }

    /// Sets how long a call may take, from its start to the head of its answer. Default: a minute.
    /// More than a year counts as a year.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets how long one try may take to the head of its answer. Default: 15 s. It is also the
    /// margin before a key expires: a repeat has to arrive while the server still knows the key.
    #[must_use]
    pub fn with_try_timeout(mut self, timeout: Duration) -> Self {
        self.try_timeout = timeout;
        self
    }

    /// Sets the limit of the first pause and of every pause. Default: 100 ms and 10 s. More than a
    /// year counts as a year.
    #[must_use]
    pub fn with_pauses(mut self, first: Duration, max: Duration) -> Self {
        self.first_pause = first;
        self.max_pause = max;
        self
    }

    /// Returns the pause after this number of tries: at least as long as the server wants.
    pub(crate) fn pause(&self, tries: u32, at_least: Option<Duration>) -> Duration {
        let doublings = tries.saturating_sub(1).min(31);
        let limit = self.first_pause.saturating_mul(1 << doublings);
        // `mul_f64` panics on a product that no `Duration` holds.
        let limit = limit.min(self.max_pause).min(check::MAX_LIMIT);
        let jitter = limit.mul_f64(rand::random_range(0.0..=1.0));
        at_least.unwrap_or_default().saturating_add(jitter)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_tries: Self::DEFAULT_MAX_TRIES,
            deadline: Self::DEFAULT_DEADLINE,
            try_timeout: Self::DEFAULT_TRY_TIMEOUT,
            first_pause: Self::DEFAULT_FIRST_PAUSE,
            max_pause: Self::DEFAULT_MAX_PAUSE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_limit_and_begin_at_zero() {
        let policy = RetryPolicy::default();
        for (tries, limit) in [(1, 100), (2, 200), (8, 10_000), (u32::MAX, 10_000)] {
            let pauses: Vec<_> = (0..200).map(|_| policy.pause(tries, None)).collect();
            let limit = Duration::from_millis(limit);
            assert!(pauses.iter().all(|pause| *pause <= limit), "{tries}");
            assert!(pauses.iter().any(|pause| *pause < limit / 4), "{tries}");
            assert!(pauses.iter().any(|pause| *pause > limit / 4 * 3), "{tries}");
        }
    }

    #[test]
    fn the_server_s_wish_is_the_least() {
        let policy = RetryPolicy::default();
        let wish = Duration::from_secs(3);
        assert!((0..100).all(|_| policy.pause(1, Some(wish)) >= wish));
        assert_eq!(policy.pause(1, Some(Duration::MAX)), Duration::MAX);
        let endless = policy.with_pauses(Duration::MAX, Duration::MAX);
        assert!((1..100).all(|tries| endless.pause(tries, None) <= check::MAX_LIMIT));
    }
}
