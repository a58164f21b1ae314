//! Jittered exponential back-off with a deadline.

use std::time::Duration;

use tokio::time::Instant;

use crate::backend::check;

/// Pauses that double from 5 ms to half a second, and never go beyond the deadline. Each is drawn
/// between half and all of its length, so that callers that failed together do not come back
/// together.
#[derive(Debug)]
pub(crate) struct Backoff {
    deadline: Instant,
    next: Duration,
}

const FIRST: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(500);

impl Backoff {
    pub(crate) fn new(limit: Duration) -> Self {
        Self::since(Instant::now(), limit)
    }

    /// Like [`new`](Self::new), but the limit counts from `begun`.
    pub(crate) fn since(begun: Instant, limit: Duration) -> Self {
        Self {
            deadline: check::deadline_from(begun, limit),
            next: FIRST,
        }
    }

    /// Returns the time left until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Waits for the next try; returns `false`, at once, when the deadline has passed.
    pub(crate) async fn pause(&mut self) -> bool {
        self.pause_at_most(MAX_PAUSE).await
    }

    /// Like [`pause`](Self::pause), but never longer than `longest`.
    pub(crate) async fn pause_at_most(&mut self, longest: Duration) -> bool {
        let left = self.left();
        if left.is_zero() {
            return false;
        }
        let jittered = self.next.mul_f64(rand::random_range(0.5..=1.0));
        let shortest = Duration::from_millis(1);
        tokio::time::sleep(jittered.min(longest).max(shortest).min(left)).await;
        self.next = (self.next * 2).min(MAX_PAUSE);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_end_at_the_deadline() {
        let start = Instant::now();
        let mut backoff = Backoff::new(Duration::from_secs(3));
        let mut pauses = 0;
        while backoff.pause().await {
            pauses += 1;
        }
        assert!(pauses > 8, "{pauses}");
        let waited = start.elapsed();
        let three = Duration::from_secs(3);
        assert!(
            waited >= three && waited < three + Duration::from_millis(5),
            "{waited:?}"
        );
    }
}
