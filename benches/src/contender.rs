//! [`Contender`]: what is measured in turns with others.

use std::time::Duration;

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;

/// One way to do an operation, by many callers at once. Contenders of one group take turns, round by round.
#[async_trait]
pub trait Contender: Send + Sync {
    /// Its name in reports: `idem`, `coalesced`, `bare pooled`, `bare held`, `pgbench`.
    fn name(&self) -> &str;

    /// Lets `callers` callers, each waiting for its answer before it asks again, work for about `length`.
    ///
    /// # Errors
    ///
    /// What an operation answers; a round with an error counts for nothing.
    async fn round(&self, callers: usize, length: Duration) -> Result<Round, BoxError>;
}

/// What a round has seen.
#[derive(Debug, Clone)]
pub struct Round {
    /// How many operations were answered.
    pub operations: u64,
    /// From the first question to the last answer.
    pub elapsed: Duration,
    /// How long each caller waited, nanoseconds; `None` where a load generator does not say.
    pub latencies: Option<Histogram<u64>>,
}

impl Round {
    /// Operations per second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}
