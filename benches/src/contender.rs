//! [`Contender`]: one side of a comparison, and the [`Plan`] of its turns.

use std::time::Duration;

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;

/// One way to do an operation, with many concurrent callers. The contenders of a scene take turns.
#[async_trait]
pub trait Contender: Send + Sync {
    /// Returns its name in reports: `idem`, `bare pooled`, `bare held`, `pgbench`.
    fn name(&self) -> &str;

    /// Runs a round with `callers` callers, each of which waits for its answer before the next
    /// call.
    ///
    /// # Errors
    ///
    /// The operation's error. A round with an error does not count.
    async fn round(&self, callers: usize, length: Length) -> Result<Round, BoxError>;
}

/// The length of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// About this time.
    Time(Duration),
    /// This number of operations of all callers together.
    Operations(u64),
}

impl Length {
    /// Returns the length for the task with this number of so many.
    pub(crate) fn share(self, number: u64, tasks: u64) -> Self {
        match self {
            Self::Time(_) => self,
            Self::Operations(count) => {
                Self::Operations(count / tasks + u64::from(number < count % tasks))
            }
        }
    }

    /// Returns the time, for a contender that other programs run: it only takes part in races.
    pub(crate) fn time(self) -> Result<Duration, BoxError> {
        match self {
            Self::Time(length) => Ok(length),
            Self::Operations(_) => Err("a race is timed".into()),
        }
    }
}

/// The result of a round.
#[derive(Debug, Clone)]
pub struct Round {
    /// How many operations were answered.
    pub operations: u64,
    /// The time from the first call to the last answer.
    pub elapsed: Duration,
    /// How long each call took, in nanoseconds; `None` if a load generator does not report it.
    pub latencies: Option<Histogram<u64>>,
}

impl Round {
    /// Returns the operations per second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}

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
