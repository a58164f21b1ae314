//! [`Standings`]: what the rounds of a group come to.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Round;

/// Throughput and latency of one contender.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Median of the rounds' operations per second.
    pub per_second: f64,
    /// Median of all waits, microseconds.
    pub p50_us: Option<f64>,
    /// What one wait of a hundred exceeds, microseconds.
    pub p99_us: Option<f64>,
}

/// One contender against another, round by round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median of the rounds' ratios.
    pub median: f64,
    /// The least and the greatest of them.
    pub spread: [f64; 2],
}

impl Ratio {
    /// Of these ratios; none of none.
    #[must_use]
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let fold = |with: fn(f64, f64) -> f64| ratios.iter().copied().reduce(with);
        Some(Self {
            median: median(ratios)?,
            spread: [fold(f64::min)?, fold(f64::max)?],
        })
    }
}

/// The middle value, or the mean of the two in the middle.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(values[middle - 1], upper))
}

/// The rounds of a group, by contender and repetition.
#[derive(Debug, Clone)]
pub struct Standings {
    contenders: Vec<(String, Vec<(usize, Round)>)>,
}

impl Standings {
    pub(crate) fn new(names: Vec<String>) -> Self {
        Self {
            contenders: names.into_iter().map(|name| (name, Vec::new())).collect(),
        }
    }

    pub(crate) fn add(&mut self, contender: usize, repetition: usize, round: Round) {
        self.contenders[contender].1.push((repetition, round));
    }

    pub(crate) fn has_none(&self, contender: usize) -> bool {
        self.contenders[contender].1.is_empty()
    }

    /// The names, in the group's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.contenders.iter().map(|(name, _)| name.as_str())
    }

    fn rounds(&self, name: &str) -> Option<&[(usize, Round)]> {
        let mut named = self.contenders.iter().filter(|(other, _)| other == name);
        named.next().map(|(_, rounds)| rounds.as_slice())
    }

    /// Operations per second of each round.
    #[must_use]
    pub fn rates(&self, name: &str) -> Option<Vec<f64>> {
        let rounds = self.rounds(name)?.iter();
        Some(rounds.map(|(_, round)| round.per_second()).collect())
    }

    /// What a contender comes to; none where there is no such contender, or it has not one round.
    #[must_use]
    pub fn figures(&self, name: &str) -> Option<Figures> {
        let rounds = self.rounds(name)?;
        let waits = merged(rounds);
        let wait = |quantile| {
            let micros = |waits: &Histogram<u64>| waits.value_at_quantile(quantile) as f64 / 1000.0;
            waits.as_ref().map(micros)
        };
        Some(Figures {
            per_second: median(&self.rates(name)?)?,
            p50_us: wait(0.5),
            p99_us: wait(0.99),
        })
    }

    /// How many times the operations of `base` were done by `ours`, in the same repetition.
    #[must_use]
    pub fn ratio(&self, ours: &str, base: &str) -> Option<Ratio> {
        self.compare(ours, base, |ours, base| {
            Some(ours.per_second() / base.per_second())
        })
    }

    /// How many times as long as one of `base` an operation of `ours` takes.
    #[must_use]
    pub fn time_ratio(&self, ours: &str, base: &str) -> Option<Ratio> {
        self.compare(ours, base, |ours, base| {
            Some(base.per_second() / ours.per_second())
        })
    }

    /// How many times the p99 of `base` that of `ours` is.
    #[must_use]
    pub fn p99_ratio(&self, ours: &str, base: &str) -> Option<Ratio> {
        let p99 = |round: &Round| Some(round.latencies.as_ref()?.value_at_quantile(0.99) as f64);
        self.compare(ours, base, |ours, base| Some(p99(ours)? / p99(base)?))
    }

    fn compare(
        &self,
        ours: &str,
        base: &str,
        ratio: impl Fn(&Round, &Round) -> Option<f64>,
    ) -> Option<Ratio> {
        let (ours, base) = (self.rounds(ours)?, self.rounds(base)?);
        let beside = |repetition| {
            let mut same = base.iter().filter(move |(other, _)| *other == repetition);
            same.next().map(|(_, round)| round)
        };
        let ratios: Vec<_> = ours
            .iter()
            .filter_map(|(repetition, round)| ratio(round, beside(*repetition)?))
            .collect();
        Ratio::of(&ratios)
    }
}

fn merged(rounds: &[(usize, Round)]) -> Option<Histogram<u64>> {
    let mut all = rounds
        .iter()
        .filter_map(|(_, round)| round.latencies.as_ref());
    let mut sum = all.next()?.clone();
    all.try_for_each(|latencies| sum.add(latencies)).ok()?;
    Some(sum)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn round(operations: u64, wait: u64) -> Round {
        let mut latencies = Histogram::new_with_bounds(1, 60_000_000_000, 2).unwrap();
        latencies.record(wait).unwrap();
        Round {
            operations,
            elapsed: Duration::from_secs(1),
            latencies: Some(latencies),
        }
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_taken_within_a_repetition() {
        let mut standings = Standings::new(vec!["ours".into(), "base".into()]);
        // The machine is ten times as fast in the second repetition; there is no third of the base.
        for (repetition, ours, base) in [(0, 20, Some(10)), (1, 300, Some(100)), (2, 1, None)] {
            standings.add(0, repetition, round(ours, 1000));
            if let Some(base) = base {
                standings.add(1, repetition, round(base, 2000));
            }
        }
        let ratio = standings.ratio("ours", "base").unwrap();
        assert_eq!((ratio.median, ratio.spread), (2.5, [2.0, 3.0]));
        let waits = standings.p99_ratio("ours", "base").unwrap();
        assert!((waits.median - 0.5).abs() < 0.01, "{waits:?}");
        assert_eq!(standings.ratio("ours", "nobody"), None);
        let figures = standings.figures("ours").unwrap();
        assert_eq!(figures.per_second, 20.0);
        assert!((figures.p99_us.unwrap() - 1.0).abs() < 0.01);
    }
}
