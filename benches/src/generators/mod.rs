//! Load generators that servers bring with them, as [`Contender`]s.
//!
//! Each makes a table (or keys) of its own, with keys as long as the store's.

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

/// What a load generator does over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement {
    /// Inserts a fresh key: `INSERT … ON CONFLICT DO NOTHING`, `SET … NX PX`.
    Insert,
    /// Reads a key that is there: `SELECT … WHERE id = …`, `GET`.
    Select,
    /// Inserts a fresh key, then writes the response to it by another statement.
    InsertUpdate,
}

impl Statement {
    /// The statement that is compared with a path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "claim_fresh" => Some(Self::Insert),
            "claim_complete" => Some(Self::InsertUpdate),
            "replay" => Some(Self::Select),
            _ => None,
        }
    }
}

/// The load generator of the server at `url`; `None` where the server has none, or where its
/// program is missing, with a line about that on standard error.
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

/// How many keys there are to read.
const ROWS: usize = 10_000;

/// The beginning of keys, as long as the scope and operation of the store's.
const PREFIX: &str = "bench payments.create ";

/// A generator that counts operations, not time.
#[async_trait]
trait Generator: Send + Sync + 'static {
    const NAME: &'static str;

    /// Makes what the operations need.
    async fn prepare(&self) -> Result<(), BoxError>;

    /// Does so many operations; returns the time and the latencies, where it tells them.
    async fn run(
        &self,
        connections: usize,
        operations: u64,
    ) -> Result<(Duration, Option<Histogram<u64>>), BoxError>;
}

/// Works for about a given time: the round before tells how many operations that is.
struct Counting<G> {
    generator: G,
    prepared: OnceCell<()>,
    /// Operations per second of the round before.
    rate: Mutex<Option<f64>>,
}

/// How many operations of each connection show how fast it is here.
const FIRST: u64 = 8;

impl<G: Generator> Counting<G> {
    fn boxed(generator: G) -> Option<Box<dyn Contender>> {
        Some(Box::new(Self {
            generator,
            prepared: OnceCell::new(),
            rate: Mutex::new(None),
        }))
    }

    /// How many operations take about so long; `None` if there was no round before.
    fn operations(&self, length: Duration) -> Option<u64> {
        let rate = *self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        Some((rate? * length.as_secs_f64()) as u64)
    }

    async fn timed(&self, connections: usize, operations: u64) -> Result<Round, BoxError> {
        // Each connection does as many as any other.
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
        let length = match length {
            Length::Operations(count) => return self.timed(connections, count).await,
            Length::Time(length) => length,
        };
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

    /// Does 500 operations a second.
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
