//! The one of Redis and Valkey: `redis-benchmark`.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;
use tokio::sync::OnceCell;

use super::program::{self, arguments};
use super::rates::Rates;
use super::{ROWS, Statement};
use crate::{Contender, Round};

/// `redis-benchmark` without pipelining: a connection for each caller, one thread.
///
/// It counts requests, not time: how many make a round is learnt from the round before.
#[derive(Debug)]
pub struct RedisBenchmark {
    program: PathBuf,
    url: String,
    statement: Statement,
    prepared: OnceCell<()>,
    rates: Rates,
}

/// How long a key is kept, in milliseconds.
const DAY: &str = "86400000";

/// What keys are drawn from: they are of 31 random bits, so those of a run hardly ever meet.
const FRESH: u64 = 2_000_000_000;

impl RedisBenchmark {
    /// On the server at `url`; none if the program is missing, with a line about that on standard error, and none
    /// for two statements on one key, which it cannot do.
    #[must_use]
    pub fn new(url: &str, statement: Statement) -> Option<Self> {
        if statement == Statement::InsertUpdate {
            return None;
        }
        Some(Self {
            program: program::find("redis-benchmark", "redis-tools")?,
            url: url.to_owned(),
            statement,
            prepared: OnceCell::new(),
            rates: Rates::default(),
        })
    }

    async fn run(
        &self,
        connections: usize,
        requests: u64,
        what: &[&str],
    ) -> Result<String, BoxError> {
        let drawn = match self.statement {
            Statement::Select => ROWS as u64,
            Statement::Insert | Statement::InsertUpdate => FRESH,
        };
        let mut all = arguments([
            "-u".to_owned(),
            self.url.clone(),
            "-c".to_owned(),
            connections.to_string(),
            "-n".to_owned(),
            requests.to_string(),
            "-r".to_owned(),
            drawn.to_string(),
        ]);
        all.extend(arguments(what.iter().copied()));
        program::run(&self.program, all).await
    }

    /// Ten times as many writes as there are keys leave hardly any out.
    async fn prepare(&self) -> Result<(), BoxError> {
        if self.statement == Statement::Select {
            let fill = ["SET", "bench:read:payments:__rand_int__", "done", "PX", DAY];
            self.run(64, 10 * ROWS as u64, &fill).await?;
        }
        Ok(())
    }

    async fn timed(&self, connections: usize, requests: u64) -> Result<Round, BoxError> {
        let what: &[&str] = match self.statement {
            Statement::Select => &["GET", "bench:read:payments:__rand_int__"],
            Statement::Insert | Statement::InsertUpdate => &[
                "SET",
                "bench:payments.create:__rand_int__",
                "pending",
                "NX",
                "PX",
                DAY,
            ],
        };
        let said = self.run(connections, requests, what).await?;
        let rate = throughput(&said).ok_or("redis-benchmark says no throughput")?;
        self.rates.note(connections, rate);
        Ok(Round {
            operations: requests,
            elapsed: Duration::from_secs_f64(requests as f64 / rate.max(1.0)),
            latencies: Some(percentiles(&said)?),
        })
    }
}

#[async_trait]
impl Contender for RedisBenchmark {
    fn name(&self) -> &str {
        "redis-benchmark"
    }

    async fn round(&self, callers: usize, length: Duration) -> Result<Round, BoxError> {
        let connections = callers.max(1);
        self.prepared.get_or_try_init(|| self.prepare()).await?;
        if self.rates.operations(connections, length).is_none() {
            self.timed(connections, Rates::first(connections)).await?;
        }
        let requests = self.rates.operations(connections, length);
        self.timed(connections, requests.unwrap_or(1)).await
    }
}

/// Requests a second.
fn throughput(said: &str) -> Option<f64> {
    let line = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("throughput summary: "))?;
    line.split(' ').next()?.parse().ok()
}

/// The latencies, as exactly as the percentiles that it prints: those between two of them count as the greater one.
fn percentiles(said: &str) -> Result<Histogram<u64>, BoxError> {
    let mut latencies = Histogram::new(3)?;
    let mut counted = 0;
    let lines = said
        .lines()
        .skip_while(|line| !line.starts_with("Latency by percentile"))
        .skip(1)
        .take_while(|line| !line.trim().is_empty());
    for line in lines {
        let (milliseconds, count) = percentile(line).ok_or("redis-benchmark has another form")?;
        let nanoseconds = (milliseconds * 1e6) as u64;
        latencies.record_n(nanoseconds, count.saturating_sub(counted))?;
        counted = count;
    }
    Ok(latencies)
}

/// `50.000% <= 0.775 milliseconds (cumulative count 10028)`: the two last numbers.
fn percentile(line: &str) -> Option<(f64, u64)> {
    let (_, rest) = line.split_once("<= ")?;
    let (milliseconds, count) = rest.split_once(" milliseconds (cumulative count ")?;
    Some((
        milliseconds.parse().ok()?,
        count.trim_end().strip_suffix(')')?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
====== SET bench:payments.create:__rand_int__ x NX PX 86400000 ======
  20000 requests completed in 0.90 seconds
  64 parallel clients

Latency by percentile distribution:
0.000% <= 0.127 milliseconds (cumulative count 1)
50.000% <= 0.775 milliseconds (cumulative count 10028)
75.000% <= 2.655 milliseconds (cumulative count 15004)
99.219% <= 12.767 milliseconds (cumulative count 19845)
100.000% <= 31.519 milliseconds (cumulative count 20000)

Cumulative distribution of latencies:
0.000% <= 0.103 milliseconds (cumulative count 0)
2.760% <= 0.207 milliseconds (cumulative count 552)

Summary:
  throughput summary: 22222.22 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        1.984     0.120     0.775     6.663    12.439    31.519
";

    #[test]
    fn the_summary_tells_the_rate() {
        assert_eq!(throughput(SAID), Some(22_222.22));
        assert_eq!(throughput("====== SET ======\n"), None);
    }

    #[test]
    fn each_latency_counts_once() {
        let latencies = percentiles(SAID).unwrap();
        assert_eq!(latencies.len(), 20_000);
        let at = |quantile| latencies.value_at_quantile(quantile) / 1_000;
        assert_eq!((at(0.5), at(0.99)), (775, 12_771));
        assert!(percentiles("Latency by percentile distribution:\nnone\n").is_err());
    }
}
