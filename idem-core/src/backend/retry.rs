//! [`RetryPauses`]: the pauses between the attempts at one transaction.

use std::error::Error as StdError;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::check;
use crate::BoxError;

const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Transactions that come back too soon lock what the next one needs, and all of them starve: hence
/// such long pauses, and the full jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pauses of a transaction's retries, up to a deadline: from 1 ms to 1 s, doubling, each
/// between zero and its whole length at random.
#[derive(Debug)]
pub struct RetryPauses {
    deadline: Instant,
    pause: Duration,
}

impl RetryPauses {
    /// Creates the pauses until `limit` has passed.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            deadline: check::deadline(limit),
            pause: FIRST_PAUSE,
        }
    }

    /// Returns the instant after which no attempt is made.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns an attempt's result to the caller. `None`, after a pause, means "try again": the
    /// error `is_retryable` and the deadline has not passed.
    pub async fn settle<T>(
        &mut self,
        attempt: Result<T, BoxError>,
        is_retryable: impl Fn(&(dyn StdError + 'static)) -> bool,
    ) -> Option<Result<T, BoxError>> {
        match attempt {
            Err(error) if is_retryable(&*error) && self.wait().await => None,
            attempt => Some(attempt),
        }
    }

    /// Waits for the next attempt; returns `false`, at once, when the deadline comes first.
    pub async fn wait(&mut self) -> bool {
        if Instant::now() + self.pause >= self.deadline {
            return false;
        }
        sleep(self.pause.mul_f64(rand::random_range(0.0..=1.0))).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_attempt_is_repeated_until_the_deadline_and_only_after_some_errors() {
        let begun = Instant::now();
        let limit = Duration::from_secs(5);
        let mut pauses = RetryPauses::new(limit);
        let mut attempts = 0;
        let last = loop {
            attempts += 1;
            let attempt = Err::<(), BoxError>(format!("attempt {attempts}").into());
            if let Some(last) = pauses.settle(attempt, |_| true).await {
                break last.unwrap_err();
            }
        };
        assert_eq!(last.to_string(), format!("attempt {attempts}"), "the last");
        assert!(attempts > 8 && begun.elapsed() <= limit);
        let mut pauses = RetryPauses::new(limit);
        assert!(pauses.settle(Ok(1), |_| true).await.is_some());
        let final_error = Err::<(), BoxError>("no".into());
        assert!(pauses.settle(final_error, |_| false).await.is_some());
    }
}
