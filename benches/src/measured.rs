//! [`Measured`]: an operation as a contender.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;

use crate::operations::{Keys, Operation};
use crate::{Contender, Length, Round};

/// One minute, in nanoseconds. A longer latency counts as a minute.
const LONGEST: u64 = 60_000_000_000;

/// An [`Operation`] as a [`Contender`]: a task for each caller. Callers stay from round to round,
/// so that they connect and prepare statements before the first round that counts.
pub(crate) struct Measured<O: Operation> {
    name: &'static str,
    operation: Arc<O>,
    keys: Keys,
    idle: Mutex<Vec<Caller<O>>>,
}

/// A caller's connection and keys.
type Caller<O> = (<O as Operation>::Connection, Keys);

impl<O: Operation> Measured<O> {
    /// Creates a contender with the operation on fresh keys.
    pub(crate) fn new(name: &'static str, operation: O) -> Self {
        Self {
            name,
            operation: Arc::new(operation),
            keys: Keys::Fresh,
            idle: Mutex::default(),
        }
    }

    /// Returns the same in a box.
    pub(crate) fn boxed(name: &'static str, operation: O) -> Box<dyn Contender> {
        Box::new(Self::new(name, operation))
    }

    /// Creates a contender with the operation on other keys.
    pub(crate) fn on(keys: &Keys, name: &'static str, operation: O) -> Box<dyn Contender> {
        Box::new(Self {
            keys: keys.clone(),
            ..Self::new(name, operation)
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Caller<O>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn callers(&self, tasks: usize) -> Result<Vec<Caller<O>>, BoxError> {
        let mut callers = std::mem::take(&mut *self.idle());
        for number in callers.len()..tasks {
            let connection = self.operation.connect().await?;
            callers.push((connection, self.keys.turns(number)));
        }
        let spare = callers.split_off(tasks);
        self.idle().extend(spare);
        Ok(callers)
    }
}

/// Runs one caller's part of a round. It reads the clock once per step: the end of one is the
/// beginning of the next.
async fn shift<O: Operation>(
    operation: Arc<O>,
    mut caller: Caller<O>,
    begin: Instant,
    length: Length,
) -> Result<(Caller<O>, Round), BoxError> {
    let mut latencies = latencies();
    let (mut operations, mut last) = (0, begin);
    while match length {
        Length::Time(length) => operations == 0 || last - begin < length,
        Length::Operations(count) => operations < count,
    } {
        let (connection, keys) = &mut caller;
        operation.step(connection, &keys.next_id()).await?;
        let now = Instant::now();
        let waited = u64::try_from((now - last).as_nanos()).unwrap_or(LONGEST);
        latencies.saturating_record(waited);
        (operations, last) = (operations + 1, now);
    }
    let round = Round {
        operations,
        elapsed: last - begin,
        latencies: Some(latencies),
    };
    Ok((caller, round))
}

fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 2).expect("valid bounds")
}

#[async_trait]
impl<O: Operation> Contender for Measured<O> {
    fn name(&self) -> &str {
        self.name
    }

    async fn round(&self, callers: usize, length: Length) -> Result<Round, BoxError> {
        let tasks = callers.clamp(1, self.operation.most_tasks());
        let callers = self.callers(tasks).await?;
        let begin = Instant::now();
        let shifts: Vec<_> = (0..)
            .zip(callers)
            .map(|(number, caller)| {
                let length = length.share(number, tasks as u64);
                tokio::spawn(shift(Arc::clone(&self.operation), caller, begin, length))
            })
            .collect();
        let (mut operations, mut elapsed, mut latencies) = (0, Duration::ZERO, latencies());
        let mut failed = None;
        for shift in shifts {
            match shift.await? {
                Ok((caller, round)) => {
                    operations += round.operations;
                    elapsed = elapsed.max(round.elapsed);
                    round.latencies.map_or(Ok(()), |part| latencies.add(part))?;
                    self.idle().push(caller);
                }
                Err(error) => failed = Some(error),
            }
        }
        let round = Round {
            operations,
            elapsed,
            latencies: Some(latencies),
        };
        failed.map_or(Ok(round), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::operations::Call;

    /// Counts its steps, and fails at one of them.
    struct Steps(AtomicU64, u64);

    impl Call for Steps {
        async fn call(&self, _: &str) -> Result<(), BoxError> {
            match self.0.fetch_add(1, Ordering::Relaxed) + 1 {
                step if step == self.1 => Err("stumbled".into()),
                _ => Ok(()),
            }
        }
    }

    #[tokio::test]
    async fn callers_share_a_count_of_steps_between_them() {
        let steps = Measured::new("steps", Steps(AtomicU64::new(0), 0));
        for (callers, count) in [(3, 10), (4, 2), (1, 1)] {
            let before = steps.operation.0.load(Ordering::Relaxed);
            let round = steps
                .round(callers, Length::Operations(count))
                .await
                .unwrap();
            let after = steps.operation.0.load(Ordering::Relaxed);
            assert_eq!((round.operations, after - before), (count, count));
            assert_eq!(round.latencies.unwrap().len(), count);
        }
    }

    #[tokio::test]
    async fn a_round_lasts_until_its_end_and_each_caller_has_a_step() {
        let steps = Measured::new("steps", Steps(AtomicU64::new(0), 0));
        let round = steps.round(5, Length::Time(Duration::ZERO)).await.unwrap();
        assert_eq!(round.operations, 5);
        let length = Duration::from_millis(5);
        let round = steps.round(2, Length::Time(length)).await.unwrap();
        assert!(round.elapsed >= length);
        assert_eq!(steps.idle().len(), 5);
    }

    #[tokio::test]
    async fn a_step_that_fails_fails_its_round_only() {
        let steps = Measured::new("steps", Steps(AtomicU64::new(0), 3));
        let error = steps.round(2, Length::Operations(8)).await.unwrap_err();
        assert_eq!(error.to_string(), "stumbled");
        let round = steps.round(2, Length::Operations(8)).await.unwrap();
        assert_eq!(round.operations, 8);
    }
}
