//! The servers' own load generators, as [`Contender`]s.
//!
//! Each makes its own table (or keys), with keys as long as the store's.

mod mariadb_slap;
mod pgbench;
mod program;
mod redis_benchmark;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;
use tokio::sync::OnceCell;

use crate::{Contender, Length, Round};

/// The repeated operation of a load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement {
    /// Inserts a fresh key: `INSERT … ON CONFLICT DO NOTHING`, `SET … NX PX`.
    Insert,
    /// Reads an existing key: `SELECT … WHERE id = …`, `GET`.
    Select,
    /// Inserts a fresh key, then writes the response to it with another statement.
    InsertUpdate,
}

impl Statement {
    /// Returns the statement to compare with a path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "claim_fresh" => Some(Self::Insert),
            "claim_complete" => Some(Self::InsertUpdate),
            "replay" => Some(Self::Select),
            _ => None,
        }
    }
}

/// Returns the load generator of the server at `url`. Returns `None` if the server has none, or,
/// with a line on standard error, if its program is missing.
pub(crate) fn generator(
    backend: &str,
    statement: Statement,
    url: &str,
) -> Option<Box<dyn Contender>> {
    match backend {
        "postgres" => Some(Box::new(pgbench::Pgbench::new(url, statement)?)),
        "mariadb" => Counting::boxed(mariadb_slap::MariadbSlap::new(url, statement)?),
        "redis" | "valkey" => {
            Counting::boxed(redis_benchmark::RedisBenchmark::new(url, statement)?)
        }
        _ => None,
    }
}

/// Most connections that a generator opens, so that no server refuses one.
const MOST_CONNECTIONS: usize = 64;

/// The number of keys to read.
const ROWS: usize = 10_000;

/// The beginning of keys, as long as the store's scope and operation.
const PREFIX: &str = "bench payments.create ";

/// A generator that counts operations, not time.
#[async_trait]
trait Generator: Send + Sync + 'static {
    const NAME: &'static str;

    /// Creates everything that the operations need.
    async fn prepare(&self) -> Result<(), BoxError>;

    /// Runs this many operations. Returns the time, and the latencies if it reports them.
    async fn run(
        &self,
        connections: usize,
        operations: u64,
    ) -> Result<(Duration, Option<Histogram<u64>>), BoxError>;
}

/// Works for about a given time: the previous round determines how many operations that takes.
struct Counting<G> {
    generator: G,
    prepared: OnceCell<()>,
    /// Operations per second of the previous round.
    rate: Mutex<Option<f64>>,
}

/// Operations of each connection in a first round, which measures the speed of this machine.
const FIRST: u64 = 8;

impl<G: Generator> Counting<G> {
    fn boxed(generator: G) -> Option<Box<dyn Contender>> {
        Some(Box::new(Self {
            generator,
            prepared: OnceCell::new(),
            rate: Mutex::new(None),
        }))
    }

    /// Returns how many operations take about this time; `None` if there was no round before.
    fn operations(&self, length: Duration) -> Option<u64> {
        let rate = *self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        Some((rate? * length.as_secs_f64()) as u64)
    }

    async fn timed(&self, connections: usize, operations: u64) -> Result<Round, BoxError> {
        // Each connection runs the same number.
        let each = (operations / connections as u64).max(1);
        let operations = each * connections as u64;
        let (elapsed, latencies) = self.generator.run(connections, operations).await?;
        let round = Round {
            operations,
            elapsed: elapsed.max(Duration::from_millis(1)),
            latencies,
        };
        let rate = Some(round.per_second());
        *self.rate.lock().unwrap_or_else(PoisonError::into_inner) = rate;
        Ok(round)
    }
}

#[async_trait]
impl<G: Generator> Contender for Counting<G> {
    fn name(&self) -> &str {
        G::NAME
    }

    async fn round(&self, callers: usize, length: Length) -> Result<Round, BoxError> {
        let connections = callers.clamp(1, MOST_CONNECTIONS);
        let prepare = || self.generator.prepare();
        self.prepared.get_or_try_init(prepare).await?;
        let length = length.time()?;
        if self.operations(length).is_none() {
            self.timed(connections, FIRST * connections as u64).await?;
        }
        let operations = self.operations(length).unwrap_or(1);
        self.timed(connections, operations).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs 500 operations a second.
    struct Slow;

    #[async_trait]
    impl Generator for Slow {
        const NAME: &'static str = "slow";

        async fn prepare(&self) -> Result<(), BoxError> {
            Ok(())
        }

        async fn run(
            &self,
            _: usize,
            operations: u64,
        ) -> Result<(Duration, Option<Histogram<u64>>), BoxError> {
            Ok((Duration::from_millis(2) * operations as u32, None))
        }
    }

    #[tokio::test]
    async fn the_round_before_tells_how_many_operations_take_how_long() {
        let slow = Counting::boxed(Slow).unwrap();
        let second = Length::Time(Duration::from_secs(1));
        assert_eq!(slow.round(2, second).await.unwrap().operations, 500);
        let moment = Length::Time(Duration::from_millis(1));
        // One each, at least.
        assert_eq!(slow.round(64, moment).await.unwrap().operations, 64);
    }
}
