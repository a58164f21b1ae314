//! The load generator of Redis and Valkey, `redis-benchmark`.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;

use super::program::{self, arguments};
use super::{Generator, ROWS, Statement};

/// `redis-benchmark` without pipelining, one thread.
pub(super) struct RedisBenchmark {
    program: PathBuf,
    url: String,
    statement: Statement,
}

/// The retention of a key, in milliseconds.
const DAY: &str = "86400000";

/// The range of random fresh keys: those of a run hardly ever coincide.
const FRESH: usize = 2_000_000_000;

const READ: &str = "bench:read:payments:__rand_int__";

impl RedisBenchmark {
    /// Returns `None` for two statements on one key, which the program cannot do.
    pub(super) fn new(url: &str, statement: Statement) -> Option<Self> {
        if statement == Statement::InsertUpdate {
            return None;
        }
        Some(Self {
            program: program::find("redis-benchmark", "redis", "redis-tools")?,
            url: url.to_owned(),
            statement,
        })
    }

    async fn requests(
        &self,
        connections: usize,
        requests: u64,
        drawn: usize,
        command: &[&str],
    ) -> Result<String, BoxError> {
        let (clients, requests) = (connections.to_string(), requests.to_string());
        let drawn = drawn.to_string();
        let mut all = arguments(["--csv", "-u", &self.url]);
        all.extend(arguments(["-c", &clients, "-n", &requests, "-r", &drawn]));
        all.extend(arguments(command));
        program::run(&self.program, all).await
    }
}

#[async_trait]
impl Generator for RedisBenchmark {
    const NAME: &'static str = "redis-benchmark";

    /// Writes ten times as many keys as there are, so that hardly any is missing.
    async fn prepare(&self) -> Result<(), BoxError> {
        if self.statement == Statement::Select {
            let fill = ["SET", READ, "done", "PX", DAY];
            self.requests(64, 10 * ROWS as u64, ROWS, &fill).await?;
        }
        Ok(())
    }

    async fn run(
        &self,
        connections: usize,
        operations: u64,
    ) -> Result<(Duration, Option<Histogram<u64>>), BoxError> {
        let fresh = "bench:payments.create:__rand_int__";
        let (drawn, command): (_, &[&str]) = match self.statement {
            Statement::Select => (ROWS, &["GET", READ]),
            _ => (FRESH, &["SET", fresh, "pending", "NX", "PX", DAY]),
        };
        let said = self
            .requests(connections, operations, drawn, command)
            .await?;
        let figures = figures(&said).ok_or("redis-benchmark has another form")?;
        let rate = figures[0].max(1.0);
        let elapsed = Duration::from_secs_f64(operations as f64 / rate);
        Ok((elapsed, Some(latencies(&figures, operations)?)))
    }
}

/// Returns the numbers after the test's name: requests a second, then average, minimum, 50th, 95th,
/// 99th percentile and maximum of the latencies in milliseconds.
fn figures(said: &str) -> Option<[f64; 7]> {
    let line = said.lines().rfind(|line| line.starts_with('"'))?;
    let cells = line.split("\",\"").skip(1);
    let numbers = cells.map(|cell| cell.trim_end_matches('"').parse());
    let numbers: Vec<f64> = numbers.collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

/// Converts percentiles: the latencies between two of them count as the greater one.
fn latencies(figures: &[f64; 7], operations: u64) -> Result<Histogram<u64>, BoxError> {
    let mut latencies = Histogram::new(3)?;
    let [.., p50, p95, p99, greatest] = *figures;
    for (percent, milliseconds) in [(50, p50), (45, p95), (4, p99), (1, greatest)] {
        let nanoseconds = (milliseconds * 1e6) as u64;
        latencies.record_n(nanoseconds, operations * percent / 100)?;
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET bench:payments.create:__rand_int__ x NX PX 86400000","22222.22","1.984","0.120","0.775","6.663","12.439","31.519"
"#;

    #[test]
    fn the_last_line_has_the_figures() {
        let figures = figures(SAID).unwrap();
        assert_eq!(
            figures,
            [22_222.22, 1.984, 0.12, 0.775, 6.663, 12.439, 31.519]
        );
        assert_eq!(super::figures("ERR unknown command\n"), None);
        let latencies = latencies(&figures, 20_000).unwrap();
        assert_eq!(latencies.len(), 20_000);
        // A histogram keeps three digits.
        for (quantile, nanoseconds) in [(0.5, 775_000), (0.99, 12_439_000)] {
            let value = latencies.value_at_quantile(quantile);
            assert!(latencies.equivalent(value, nanoseconds), "{value}");
        }
    }
}
