//! [`Contender`]: what is measured in turns with others.

use std::time::Duration;

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;

/// One way to do an operation, by many callers at once. The contenders of a scene take turns.
#[async_trait]
pub trait Contender: Send + Sync {
    /// Its name in reports: `idem`, `bare pooled`, `bare held`, `pgbench`.
    fn name(&self) -> &str;

    /// Lets `callers` callers work, each of which waits for its answer before the next call.
    ///
    /// # Errors
    ///
    /// The operation's. A round with an error does not count.
    async fn round(&self, callers: usize, length: Length) -> Result<Round, BoxError>;
}

/// How long a round is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// About so long.
    Time(Duration),
    /// So many operations of all callers together.
    Operations(u64),
}

/// What a round comes to.
#[derive(Debug, Clone)]
pub struct Round {
    /// How many operations were answered.
    pub operations: u64,
    /// From the first call to the last answer.
    pub elapsed: Duration,
    /// How long each call took, in nanoseconds; `None` where a load generator does not tell.
    pub latencies: Option<Histogram<u64>>,
}

impl Round {
    /// Operations per second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}
