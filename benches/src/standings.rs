//! [`Standings`]: the rounds of a scene.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Round;

/// Throughput and latency of one contender.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Median of the rounds' operations per second.
    pub per_second: f64,
    /// Median of all latencies, in microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of all latencies, in microseconds.
    pub p99_us: Option<f64>,
}

/// One contender against another, round by round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median of the rounds' ratios.
    pub median: f64,
    /// The lowest and the highest ratio.
    pub spread: [f64; 2],
}

impl Ratio {
    /// Returns the median and spread of these values; `None` if there are none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let spread = [*values.first()?, *values.last()?];
        let (lower, upper) = ((values.len() - 1) / 2, values.len() / 2);
        Some(Self {
            median: f64::midpoint(values[lower], values[upper]),
            spread,
        })
    }
}

/// The rounds of a scene at one number of callers, by contender and repetition. A round that failed
/// is `None`.
#[derive(Debug, Clone)]
pub(crate) struct Standings {
    contenders: Vec<(String, Vec<Option<Round>>)>,
}

impl Standings {
    pub(crate) fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        Self {
            contenders: names.map(|name| (name.to_owned(), Vec::new())).collect(),
        }
    }

    /// Adds the contender's round of the next repetition.
    pub(crate) fn add(&mut self, contender: usize, round: Option<Round>) {
        self.contenders[contender].1.push(round);
    }

    pub(crate) fn has_none(&self, contender: usize) -> bool {
        self.contenders[contender].1.iter().all(Option::is_none)
    }

    /// Returns the names, in the scene's order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.contenders.iter().map(|(name, _)| name.as_str())
    }

    fn rounds(&self, name: &str) -> &[Option<Round>] {
        let named = self.contenders.iter().find(|(other, _)| other == name);
        named.map_or(&[], |(_, rounds)| rounds)
    }

    /// Returns the operations per second of each round.
    pub(crate) fn rates(&self, name: &str) -> Vec<f64> {
        let rounds = self.rounds(name).iter().flatten();
        rounds.map(Round::per_second).collect()
    }

    /// Returns the figures of a contender; `None` if it has no round.
    pub(crate) fn figures(&self, name: &str) -> Option<Figures> {
        let latencies = merged(self.rounds(name));
        let quantile = |quantile| {
            let latencies = latencies.as_ref()?;
            Some(latencies.value_at_quantile(quantile) as f64 / 1000.0)
        };
        Some(Figures {
            per_second: Ratio::of(self.rates(name))?.median,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
        })
    }

    /// Returns throughput of `ours` against that of `base`, within each repetition.
    pub(crate) fn ratio(&self, ours: &str, base: &str) -> Option<Ratio> {
        self.compare(ours, base, |ours, base| {
            Some(ours.per_second() / base.per_second())
        })
    }

    /// Returns time per operation of `ours` against that of `base`.
    pub(crate) fn time_ratio(&self, ours: &str, base: &str) -> Option<Ratio> {
        self.compare(ours, base, |ours, base| {
            Some(base.per_second() / ours.per_second())
        })
    }

    /// Returns the 99th percentile of latency of `ours` against that of `base`.
    pub(crate) fn p99_ratio(&self, ours: &str, base: &str) -> Option<Ratio> {
        let p99 = |round: &Round| Some(round.latencies.as_ref()?.value_at_quantile(0.99) as f64);
        self.compare(ours, base, |ours, base| Some(p99(ours)? / p99(base)?))
    }

    fn compare(
        &self,
        ours: &str,
        base: &str,
        ratio: impl Fn(&Round, &Round) -> Option<f64>,
    ) -> Option<Ratio> {
        let repetitions = self.rounds(ours).iter().zip(self.rounds(base));
        let ratios = repetitions.filter_map(|(ours, base)| ratio(ours.as_ref()?, base.as_ref()?));
        Ratio::of(ratios.collect())
    }
}

fn merged(rounds: &[Option<Round>]) -> Option<Histogram<u64>> {
    let rounds = rounds.iter().flatten();
    let mut all = rounds.filter_map(|round| round.latencies.as_ref());
    let mut sum = all.next()?.clone();
    all.try_for_each(|latencies| sum.add(latencies)).ok()?;
    Some(sum)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
        let median = |values: &[f64]| Some(Ratio::of(values.to_vec())?.median);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_taken_within_a_repetition() {
        let mut standings = Standings::new(["ours", "base"].into_iter());
        // The machine is ten times as fast in the second repetition; the base fails in the third.
        for (ours, base) in [(20, Some(10)), (300, Some(100)), (1, None)] {
            standings.add(0, Some(round(ours, 1000)));
            standings.add(1, base.map(|base| round(base, 2000)));
        }
        let ratio = standings.ratio("ours", "base").unwrap();
        assert_eq!((ratio.median, ratio.spread), (2.5, [2.0, 3.0]));
        let latencies = standings.p99_ratio("ours", "base").unwrap();
        assert!((latencies.median - 0.5).abs() < 0.01, "{latencies:?}");
        assert_eq!(standings.ratio("ours", "nobody"), None);
        let figures = standings.figures("ours").unwrap();
        assert_eq!(figures.per_second, 20.0);
        assert!((figures.p99_us.unwrap() - 1.0).abs() < 0.01);
    }
}
