//! The load generator of Redis and Valkey, `redis-benchmark`.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::{Generator, ROWS, Work, words};
use crate::Round;
use crate::operations::Life;

/// The range of random fresh keys: those of a run hardly ever coincide.
const FRESH: usize = 2_000_000_000;

const INSERTED: &str = "bench:payments.create:__rand_int__";
const READ: &str = "bench:read:payments:__rand_int__";

/// The retention of a key, in milliseconds.
const DAY: u64 = 86_400_000;

/// `redis-benchmark` without pipelining, one thread. Returns `None` for two statements on one key,
/// which it cannot do.
pub(super) fn generator(url: String, life: &Life) -> Option<Generator> {
    let (preparation, command) = match life {
        // Writes ten times as many keys as there are, so that hardly any is missing.
        Life::Replay => {
            let requests = 10 * ROWS;
            let fill = format!("-c 64 -n {requests} -r {ROWS} SET {READ} done PX {DAY}");
            (Some(fill), format!("-r {ROWS} GET {READ}"))
        }
        Life::Claim => {
            let insert = format!("-r {FRESH} SET {INSERTED} pending NX PX {DAY}");
            (None, insert)
        }
        Life::Complete(_) => return None,
    };
    Some(Generator {
        name: "redis-benchmark",
        origin: ("redis", "redis-tools"),
        preparation: preparation.map(|fill| words(&format!("--csv -u {url} {fill}"))),
        arguments: Box::new(move |work| {
            let (clients, requests) = (work.connections, work.operations);
            words(&format!(
                "--csv -u {url} -c {clients} -n {requests} {command}"
            ))
        }),
        read: Box::new(round),
        is_timed: false,
    })
}

fn round(said: &str, work: &Work) -> Option<Round> {
    let figures = figures(said)?;
    Some(Round {
        operations: work.operations,
        elapsed: Duration::from_secs_f64(work.operations as f64 / figures[0].max(1.0)),
        latencies: Some(latencies(&figures, work.operations)?),
    })
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
fn latencies(figures: &[f64; 7], operations: u64) -> Option<Histogram<u64>> {
    let mut latencies = Histogram::new(3).ok()?;
    let [.., p50, p95, p99, greatest] = *figures;
    for (percent, milliseconds) in [(50, p50), (45, p95), (4, p99), (1, greatest)] {
        let nanoseconds = (milliseconds * 1e6) as u64;
        latencies
            .record_n(nanoseconds, operations * percent / 100)
            .ok()?;
    }
    Some(latencies)
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
