//! [`RetryBudget`]: a token bucket for retries.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Limits the retries of all requests that share it, so that clients do not keep a server down that
/// is coming up again.
///
/// A bucket of tokens; clones share it, and so do clones of a client. Each retry takes a token, and
/// without one the request ends with the answer that it has. Each call adds a tenth of a token, and
/// each second adds one. The bucket holds 100 tokens and is full at first: a burst of 100 retries,
/// then a retry for every tenth request plus one a second. First tries are never delayed.
#[derive(Clone)]
pub struct RetryBudget {
    bucket: Arc<Mutex<Bucket>>,
}

struct Bucket {
    size: f64,
    per_second: f64,
    per_call: f64,
    tokens: f64,
    filled_at: Instant,
}

impl RetryBudget {
    /// 100 tokens.
    pub const DEFAULT_SIZE: u32 = 100;
    /// One token.
    pub const DEFAULT_PER_SECOND: f64 = 1.0;
    /// A tenth of a token.
    pub const DEFAULT_PER_CALL: f64 = 0.1;

    /// Creates a full bucket of this size. Numbers below zero, and NaN, count as zero.
    #[must_use]
    pub fn new(size: u32, per_second: f64, per_call: f64) -> Self {
        let bucket = Bucket {
            size: f64::from(size),
            per_second: per_second.max(0.0),
            per_call: per_call.max(0.0),
            tokens: f64::from(size),
            filled_at: Instant::now(),
        };
        Self {
            bucket: Arc::new(Mutex::new(bucket)),
        }
    }

    /// Adds what a call brings.
    pub(crate) fn deposit(&self) {
        self.with(|bucket| bucket.add(bucket.per_call));
    }

    /// Takes a token for a retry; returns `false` when there is none.
    pub(crate) fn withdraw(&self) -> bool {
        self.with(|bucket| {
            let is_there = bucket.tokens >= 1.0;
            if is_there {
                bucket.tokens -= 1.0;
            }
            is_there
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Bucket) -> T) -> T {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let passed = now.saturating_duration_since(bucket.filled_at);
        bucket.filled_at = now;
        let refill = bucket.per_second * passed.as_secs_f64();
        bucket.add(refill);
        change(&mut bucket)
    }
}

impl Bucket {
    fn add(&mut self, tokens: f64) {
        self.tokens = (self.tokens + tokens).min(self.size);
    }
}

/// Returns a bucket with the numbers above.
impl Default for RetryBudget {
    fn default() -> Self {
        Self::new(
            Self::DEFAULT_SIZE,
            Self::DEFAULT_PER_SECOND,
            Self::DEFAULT_PER_CALL,
        )
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.with(|bucket| bucket.tokens);
        f.debug_struct("RetryBudget")
            .field("tokens", &tokens)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn tokens_run_out_and_come_back_with_calls_and_time() {
        let budget = RetryBudget::new(2, 0.5, 0.25);
        let clone = budget.clone();
        assert!(budget.withdraw() && clone.withdraw());
        assert!(!budget.withdraw(), "clones share the bucket");
        (0..4).for_each(|_| budget.deposit());
        assert!(budget.withdraw() && !budget.withdraw());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(budget.withdraw() && !budget.withdraw());
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(budget.withdraw() && budget.withdraw() && !budget.withdraw());
    }

    #[test]
    fn numbers_without_sense_count_as_zero() {
        let budget = RetryBudget::new(1, f64::NAN, -1.0);
        assert!(budget.withdraw());
        budget.deposit();
        assert!(!budget.withdraw());
    }
}
