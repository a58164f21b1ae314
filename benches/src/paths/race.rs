//! [`Race`]: the contenders of a scene take turns, and their rounds are compared.

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;

use super::{Meter, Scene};
use crate::pgbench::Pgbench;
use crate::rival::Rival;
use crate::{Contender, Figures, Length, Plan, Round, Row};

/// The meter of ratios.
pub(super) struct Race {
    pub(super) plan: Plan,
    pub(super) rows: Vec<Row>,
}

#[async_trait]
impl Meter for Race {
    async fn measure(&mut self, scene: Scene) -> Result<(), BoxError> {
        let plan = Plan {
            round: self.plan.round * scene.longer,
            ..self.plan
        };
        for &callers in scene.callers {
            let guests = guests(&scene, callers);
            let all = scene.contenders.iter().chain(&guests);
            let all: Vec<&dyn Contender> = all.map(|contender| &**contender).collect();
            let names = all.iter().map(|contender| contender.name().to_owned());
            let rounds = race(&all, callers, &plan).await?;
            let heat = Heat {
                path: scene.path,
                backend: scene.backend.clone(),
                callers,
                contenders: names.zip(rounds).collect(),
            };
            self.rows.extend((scene.rows)(&heat).into_iter().flatten());
        }
        Ok(())
    }
}

/// Returns PostgreSQL's own load generator at 64 callers, and another crate.
fn guests(scene: &Scene, callers: usize) -> Vec<Box<dyn Contender>> {
    let pgbench = Pgbench::of(scene.path, &scene.backend, callers);
    let rival = Rival::of(scene.path, &scene.backend, callers);
    pgbench.into_iter().chain(rival).collect()
}

/// The rounds of a contender that count, by repetition. A round that failed is `None`.
type Rounds = Vec<Option<Round>>;

/// Lets the contenders take turns, `ABC BCA CAB …`, after a round each that does not count. So a
/// disturbance of the machine affects all of them, and compared rounds are moments apart. Returns
/// the rounds of each contender.
///
/// A round that fails does not count; a line on standard error says so.
///
/// # Errors
///
/// The last error of a contender without a round that counts.
async fn race(
    contenders: &[&dyn Contender],
    callers: usize,
    plan: &Plan,
) -> Result<Vec<Rounds>, BoxError> {
    for contender in contenders {
        contender.round(callers, Length::Time(plan.warm_up)).await?;
    }
    let mut results: Vec<(Rounds, Option<BoxError>)> = Vec::new();
    results.resize_with(contenders.len(), Default::default);
    for repetition in 0..plan.repetitions {
        for turn in 0..contenders.len() {
            // Each contender begins equally often.
            let index = (turn + repetition) % contenders.len();
            let contender = contenders[index];
            let (rounds, failure) = &mut results[index];
            let round = contender.round(callers, Length::Time(plan.round)).await;
            let round = round.map_err(|error| {
                eprintln!("{}: a round failed: {error}", contender.name());
                *failure = Some(error);
            });
            rounds.push(round.ok());
        }
    }
    let rounds = results.into_iter().map(|(rounds, failure)| match failure {
        Some(error) if rounds.iter().all(Option::is_none) => Err(error),
        _ => Ok(rounds),
    });
    rounds.collect()
}

/// The rounds of a scene's contenders at one number of callers.
pub(super) struct Heat {
    path: &'static str,
    backend: String,
    pub(super) callers: usize,
    /// By name, in the scene's order.
    contenders: Vec<(String, Rounds)>,
}

impl Heat {
    /// Returns throughput of the first contender against that of every other one; against itself if
    /// there is none.
    pub(super) fn rows(&self) -> Vec<Option<Row>> {
        let Some(((ours, _), others)) = self.contenders.split_first() else {
            return Vec::new();
        };
        let bases = match others {
            [] => &self.contenders,
            others => others,
        };
        let rows = bases.iter();
        let rows = rows.map(|(base, _)| self.row(self.path, ours, base));
        rows.collect()
    }

    /// Returns throughput of `ours` against that of `base`, within each repetition; `None` if one
    /// of them did not take part.
    pub(super) fn row(&self, path: &str, ours: &str, base: &str) -> Option<Row> {
        self.compared(path, [ours, base], |ours, base| {
            Some(ours.per_second() / base.per_second())
        })
    }

    /// Returns time per operation of `ours` against that of `base`.
    pub(super) fn time_row(&self, path: &str, ours: &str, base: &str) -> Option<Row> {
        self.compared(path, [ours, base], |ours, base| {
            Some(base.per_second() / ours.per_second())
        })
    }

    /// Returns the 99th percentile of latency of `ours` against that of `base`.
    pub(super) fn p99_row(&self, path: &str, ours: &str, base: &str) -> Option<Row> {
        let p99 = |round: &Round| Some(round.latencies.as_ref()?.value_at_quantile(0.99) as f64);
        self.compared(path, [ours, base], |ours, base| {
            Some(p99(ours)? / p99(base)?)
        })
    }

    /// Returns a row with the figures of both; `ratio` compares the rounds of a repetition.
    pub(super) fn compared(
        &self,
        path: &str,
        [ours, base]: [&str; 2],
        ratio: impl Fn(&Round, &Round) -> Option<f64>,
    ) -> Option<Row> {
        let repetitions = self.rounds(ours).iter().zip(self.rounds(base));
        let ratios = repetitions.filter_map(|(ours, base)| ratio(ours.as_ref()?, base.as_ref()?));
        let (median, spread) = median(ratios.collect())?;
        Some(Row {
            path: path.to_owned(),
            backend: self.backend.clone(),
            callers: self.callers,
            ratio: median,
            baseline: base.to_owned(),
            spread: Some(spread),
            unit: String::new(),
            idem: self.figures(ours),
            bare: self.figures(base),
        })
    }

    fn rounds(&self, name: &str) -> &[Option<Round>] {
        let mut named = self.contenders.iter().filter(|(other, _)| other == name);
        named.next().map_or(&[], |(_, rounds)| rounds)
    }

    /// Returns the figures of a contender; `None` if it has no round.
    fn figures(&self, name: &str) -> Option<Figures> {
        let rounds = || self.rounds(name).iter().flatten();
        let latencies = merged(rounds().filter_map(|round| round.latencies.as_ref()));
        let quantile = |quantile| {
            let latencies = latencies.as_ref()?;
            Some(latencies.value_at_quantile(quantile) as f64 / 1000.0)
        };
        Some(Figures {
            per_second: median(rounds().map(Round::per_second).collect())?.0,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
        })
    }
}

fn merged<'h>(mut all: impl Iterator<Item = &'h Histogram<u64>>) -> Option<Histogram<u64>> {
    let mut sum = all.next()?.clone();
    all.try_for_each(|latencies| sum.add(latencies)).ok()?;
    Some(sum)
}

/// Returns the median of these values, and the lowest and the highest; `None` if there are none.
fn median(mut values: Vec<f64>) -> Option<(f64, [f64; 2])> {
    values.sort_by(f64::total_cmp);
    let spread = [*values.first()?, *values.last()?];
    let (lower, upper) = ((values.len() - 1) / 2, values.len() / 2);
    Some((f64::midpoint(values[lower], values[upper]), spread))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;

    /// Reports this many operations in a second, and logs its name.
    struct Fake(&'static str, u64, Arc<Mutex<String>>);

    #[async_trait]
    impl Contender for Fake {
        fn name(&self) -> &str {
            self.0
        }

        async fn round(&self, _: usize, length: Length) -> Result<Round, BoxError> {
            let length = length.time()?;
            self.2.lock().unwrap().push_str(self.0);
            if self.1 == 0 {
                return Err("tired".into());
            }
            Ok(Round {
                operations: self.1 * length.as_secs(),
                elapsed: length,
                latencies: None,
            })
        }
    }

    /// Returns the rounds of contenders with these rates, and the names in the order of turns.
    async fn raced(rates: [u64; 3]) -> (Result<Vec<Rounds>, BoxError>, String) {
        let log = Arc::default();
        let fakes = ["A", "B", "C"].into_iter().zip(rates);
        let fakes: Vec<_> = fakes
            .map(|(name, rate)| Fake(name, rate, Arc::clone(&log)))
            .collect();
        let all: Vec<_> = fakes.iter().map(|fake| fake as &dyn Contender).collect();
        let plan = Plan {
            repetitions: 4,
            round: Duration::from_secs(2),
            warm_up: Duration::from_secs(1),
            quick: false,
        };
        let rounds = race(&all, 1, &plan).await;
        let log = log.lock().unwrap().clone();
        (rounds, log)
    }

    #[tokio::test]
    async fn contenders_take_turns_and_each_begins() {
        let (rounds, log) = raced([300, 100, 50]).await;
        assert_eq!(log, "ABCABCBCACABABC");
        for (rounds, rate) in rounds.unwrap().iter().zip([300.0, 100.0, 50.0]) {
            let rates = rounds.iter().flatten().map(Round::per_second);
            assert_eq!(rates.collect::<Vec<_>>(), [rate; 4]);
        }
    }

    #[tokio::test]
    async fn a_contender_without_a_round_that_counts_fails_the_race() {
        let (rounds, _) = raced([1, 0, 1]).await;
        assert_eq!(rounds.unwrap_err().to_string(), "tired");
    }

    fn round(operations: u64, latency: u64) -> Round {
        let mut latencies = Histogram::new_with_bounds(1, 60_000_000_000, 2).unwrap();
        latencies.record(latency).unwrap();
        Round {
            operations,
            elapsed: Duration::from_secs(1),
            latencies: Some(latencies),
        }
    }

    #[test]
    fn the_median_is_the_middle() {
        let median = |values: &[f64]| Some(median(values.to_vec())?.0);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_taken_within_a_repetition() {
        // The machine is ten times as fast in the second repetition; the base fails in the third.
        let ours = [20, 300, 1].map(|rate| Some(round(rate, 1000)));
        let base = [Some(10), Some(100), None].map(|rate| Some(round(rate?, 2000)));
        let heat = Heat {
            path: "replay",
            backend: "memory".to_owned(),
            callers: 1,
            contenders: vec![("ours".into(), ours.into()), ("base".into(), base.into())],
        };
        let row = heat.row("replay", "ours", "base").unwrap();
        assert_eq!((row.ratio, row.spread), (2.5, Some([2.0, 3.0])));
        let latencies = heat.p99_row("replay_p99", "ours", "base").unwrap();
        assert!((latencies.ratio - 0.5).abs() < 0.01, "{latencies:?}");
        assert_eq!(heat.row("replay", "ours", "nobody"), None);
        let figures = row.idem.unwrap();
        assert_eq!(figures.per_second, 20.0);
        assert!((figures.p99_us.unwrap() - 1.0).abs() < 0.01);
    }
}
