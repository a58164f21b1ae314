//! [`Traffic`]: rates and latencies of the last minutes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use idem_core::engine::observe::names;
use tokio::time::Instant;

use super::text::{Sample, samples};

/// How far rates look back.
const WINDOW: Duration = Duration::from_secs(5 * 60);
/// Most series of one page; further ones are left out.
const MAX_SERIES: usize = 20_000;
/// Most bounds of a histogram; further ones are left out.
const MAX_BOUNDS: usize = 100;

/// The counters that the console shows, each with a label and the values that count apart; others are
/// `other`. Readings are kept for minutes, so they hold no text of a page.
const COUNTED: [(&str, &str, &[&str]); 5] = [
    (names::DECISIONS, "decision", &DECISIONS),
    (names::ENDINGS, "ending", &["unsettled"]),
    (names::UNSTORED, "reason", &REASONS),
    (names::LEASE_LOSSES, "", &[]),
    (names::STORE_RETRIES, "", &[]),
];
/// The values of the label `decision`, and `other`.
pub(crate) const DECISIONS: [&str; 8] = [
    "new",
    "takeover",
    "duplicate",
    "failed",
    "in_flight",
    "conflict",
    "unknown",
    "other",
];
const REASONS: [&str; 10] = [
    "marked",
    "no-store",
    "upgrade",
    "unread",
    "stream",
    "unfinished",
    "status",
    "content",
    "broken",
    "too-large",
];

/// The name of a counter, and the value by which it counts, or `other`.
type Counter = (&'static str, &'static str);

/// Returns the counter of a sample, if it is one of those that the console shows.
fn counter(sample: &Sample<'_>) -> Option<Counter> {
    let mut counted = COUNTED.iter();
    let (name, label, values) = counted.find(|(name, ..)| *name == sample.name)?;
    let label = sample.label(label);
    let value = values.iter().find(|value| Some(**value) == label);
    Some((name, value.copied().unwrap_or("other")))
}

/// What the pages of all services say together about the last minutes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Traffic {
    /// How long the window is; zero until there are two readings.
    pub(crate) window: Duration,
    /// Counts per second.
    rates: BTreeMap<Counter, f64>,
    /// Counts in the window.
    counts: BTreeMap<Counter, f64>,
    pub(crate) waiters: f64,
    pub(crate) p50: Option<Quantile>,
    pub(crate) p99: Option<Quantile>,
}

/// An estimate from a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Quantile {
    Seconds(f64),
    /// Above the last bound that the histogram has.
    Above(f64),
}

/// Values by the names and labels of their series.
type Counters = HashMap<(String, String), f64>;

/// One page's readings.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    last: Option<(Instant, Counters)>,
    increases: VecDeque<Increase>,
    waiters: f64,
}

/// What came between two readings.
#[derive(Debug, Default)]
struct Increase {
    until: Option<Instant>,
    seconds: f64,
    counts: BTreeMap<Counter, f64>,
    /// Observations up to each bound. Bounds are positive, so their bits are in their order.
    buckets: BTreeMap<u64, f64>,
}

impl Traffic {
    /// Returns how often per second this was counted with one of these values.
    pub(crate) fn rate(&self, name: &'static str, values: &[&'static str]) -> f64 {
        let rates = values
            .iter()
            .filter_map(|value| self.rates.get(&(name, *value)));
        rates.sum()
    }

    /// Returns how often this was counted in the window, with any value.
    pub(crate) fn count(&self, name: &'static str) -> f64 {
        let counts = self.counts.iter();
        counts
            .filter(|((of, _), _)| *of == name)
            .map(|(_, count)| count)
            .sum()
    }
}

impl Increase {
    /// Counts observations up to a bound.
    fn count(&mut self, bound: u64, grown: f64) {
        let is_infinite = f64::from_bits(bound).is_infinite();
        if is_infinite || self.buckets.len() < MAX_BOUNDS || self.buckets.contains_key(&bound) {
            *self.buckets.entry(bound).or_default() += grown;
        }
    }
}

impl Readings {
    /// Adds what a page says at this instant.
    pub(crate) fn add(&mut self, text: &str, now: Instant) {
        let mut counters = Counters::new();
        let mut increase = Increase {
            until: Some(now),
            ..Increase::default()
        };
        self.waiters = 0.0;
        let bucket = format!("{}_bucket", names::FIRST_SEEN_TO_SEALED);
        for sample in samples(text, "idem_").take(MAX_SERIES) {
            if sample.name == names::WAITERS {
                self.waiters += sample.value.max(0.0);
                continue;
            }
            let is_bucket = sample.name == bucket;
            let counter = counter(&sample);
            let is_counted = counter.is_some() || is_bucket;
            if !is_counted || !(0.0..=f64::MAX).contains(&sample.value) {
                continue;
            }
            let series = (sample.name.to_owned(), sample.series.to_owned());
            if let Some((_, last)) = &self.last {
                let before = last.get(&series).copied().unwrap_or(0.0);
                // A counter that has fallen began again from zero.
                let grown = match sample.value >= before {
                    true => sample.value - before,
                    false => sample.value,
                };
                let bound = sample.label("le").and_then(|le| le.parse::<f64>().ok());
                if let Some(counter) = counter {
                    *increase.counts.entry(counter).or_default() += grown;
                } else if let Some(bound) = bound.filter(|bound| *bound > 0.0) {
                    increase.count(bound.to_bits(), grown);
                }
            }
            counters.insert(series, sample.value);
        }
        if let Some((before, _)) = &self.last {
            increase.seconds = (now - *before).as_secs_f64();
            self.increases.push_back(increase);
        }
        self.last = Some((now, counters));
        let is_old = |increase: &Increase| increase.until.is_some_and(|at| now - at > WINDOW);
        while self.increases.front().is_some_and(is_old) {
            self.increases.pop_front();
        }
    }
}

/// Reads a page's counts of answers that were not stored, by reason; `None` without metrics of idem.
pub(crate) fn unstored(text: &str) -> Option<BTreeMap<&'static str, u64>> {
    samples(text, "idem_").next()?;
    let mut counts = BTreeMap::new();
    for sample in samples(text, names::UNSTORED).take(MAX_SERIES) {
        if let Some((_, reason)) = counter(&sample) {
            let count: &mut u64 = counts.entry(reason).or_default();
            *count = count.saturating_add(sample.value as u64);
        }
    }
    Some(counts)
}

/// Adds up the readings of all pages.
pub(crate) fn traffic<'r>(readings: impl Iterator<Item = &'r Readings>) -> Traffic {
    let mut traffic = Traffic::default();
    let mut buckets: BTreeMap<u64, f64> = BTreeMap::new();
    for page in readings {
        traffic.waiters += page.waiters;
        let seconds: f64 = page.increases.iter().map(|one| one.seconds).sum();
        if seconds <= 0.0 {
            continue;
        }
        traffic.window = traffic.window.max(Duration::from_secs_f64(seconds));
        for increase in &page.increases {
            for (counter, grown) in &increase.counts {
                *traffic.rates.entry(*counter).or_default() += grown / seconds;
                *traffic.counts.entry(*counter).or_default() += grown;
            }
            for (bound, grown) in &increase.buckets {
                *buckets.entry(*bound).or_default() += grown;
            }
        }
    }
    let buckets: Vec<(f64, f64)> = buckets
        .into_iter()
        .map(|(bound, count)| (f64::from_bits(bound), count))
        .collect();
    traffic.p50 = quantile(&buckets, 0.5);
    traffic.p99 = quantile(&buckets, 0.99);
    traffic
}

/// Estimates a quantile as Prometheus' `histogram_quantile` does: evenly within a bucket.
fn quantile(buckets: &[(f64, f64)], share: f64) -> Option<Quantile> {
    let total = buckets.last().filter(|(bound, _)| bound.is_infinite())?.1;
    if total <= 0.0 || !total.is_finite() {
        return None;
    }
    let rank = share * total;
    let (mut low, mut below) = (0.0, 0.0);
    for &(bound, count) in buckets {
        if count >= rank {
            if bound.is_infinite() {
                return Some(Quantile::Above(low));
            }
            let within = (count - below).max(f64::MIN_POSITIVE);
            return Some(Quantile::Seconds(
                low + (bound - low) * ((rank - below) / within),
            ));
        }
        (low, below) = (bound, count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(new: u64, fast: u64, all: u64) -> String {
        format!(
            "idem_decisions_total{{operation=\"pay\",decision=\"new\"}} {new}\n\
             idem_decisions_total{{operation=\"pay\",decision=\"duplicate\"}} 5\n\
             idem_first_seen_to_sealed_seconds_bucket{{operation=\"pay\",le=\"0.1\"}} {fast}\n\
             idem_first_seen_to_sealed_seconds_bucket{{operation=\"pay\",le=\"0.2\"}} {all}\n\
             idem_first_seen_to_sealed_seconds_bucket{{operation=\"pay\",le=\"+Inf\"}} {all}\n\
             idem_waiters{{operation=\"pay\"}} 2\n"
        )
    }

    #[test]
    fn rates_are_those_of_the_window_through_restarts() {
        let (mut readings, began) = (Readings::default(), Instant::now());
        readings.add(&page(100, 0, 0), began);
        let first = traffic([&readings].into_iter());
        assert_eq!((first.window, first.waiters), (Duration::ZERO, 2.0));
        readings.add(&page(150, 50, 100), began + Duration::from_secs(10));
        // The service began again.
        readings.add(&page(30, 0, 0), began + Duration::from_secs(20));
        let now = traffic([&readings].into_iter());
        assert_eq!(now.window, Duration::from_secs(20));
        assert_eq!(now.rate(names::DECISIONS, &["new"]), 4.0);
        assert_eq!(now.rate(names::DECISIONS, &["duplicate"]), 0.0);
        assert_eq!(now.p50, Some(Quantile::Seconds(0.1)));
        let Some(Quantile::Seconds(p99)) = now.p99 else {
            panic!("{now:?}")
        };
        assert!((p99 - 0.198).abs() < 1e-9);
        let two = traffic([&readings, &readings].into_iter());
        assert_eq!(two.rate(names::DECISIONS, &["new"]), 8.0);
        readings.add(&page(30, 0, 0), began + Duration::from_secs(1_000));
        assert_eq!(readings.increases.len(), 1);
    }

    #[test]
    fn answers_that_are_not_stored_are_counted_by_reason() {
        let page = |stream: u64| {
            format!(
                "idem_unstored_total{{operation=\"a\",reason=\"stream\"}} {stream}\n\
                 idem_unstored_total{{operation=\"b\",reason=\"stream\"}} 1\n\
                 idem_unstored_total{{operation=\"b\",reason=\"of a later version\"}} 4\n\
                 idem_unstored_total_more{{reason=\"stream\"}} 9\n"
            )
        };
        assert_eq!(
            unstored(&page(2)),
            Some(BTreeMap::from([("other", 4), ("stream", 3)]))
        );
        let (mut readings, began) = (Readings::default(), Instant::now());
        readings.add(&page(2), began);
        readings.add(&page(7), began + Duration::from_secs(10));
        assert_eq!(traffic([&readings].into_iter()).count(names::UNSTORED), 5.0);
        let huge = "idem_unstored_total{reason=\"status\"} 1e300\n".repeat(3);
        assert_eq!(
            unstored(&huge),
            Some(BTreeMap::from([("status", u64::MAX)]))
        );
        assert_eq!(unstored("<html></html>"), None);
    }

    #[test]
    fn a_hostile_page_leaves_numbers_and_no_text() {
        let (mut readings, began) = (Readings::default(), Instant::now());
        readings.add("", began);
        let name = "idem_first_seen_to_sealed_seconds_bucket";
        let mut page = String::new();
        for (le, value) in [("1e20", 1.7e308), ("+Inf", 1.7e308), ("+Inf", -1.0)] {
            page.push_str(&format!("{name}{{o=\"{value}\",le=\"{le}\"}} {value}\n"));
        }
        for number in 0..4_000 {
            page.push_str(&format!(
                "idem_decisions_total{{decision=\"{number}\"}} 1\n\
                 idem_other_total{{x=\"{number}\"}} 1\n\
                 {name}{{le=\"{number}\"}} 1.7e308\n\
                 {name}{{le=\"{number}\",a=\"b\"}} 1.7e308\n"
            ));
        }
        for second in 1..3 {
            readings.add(&page, began + Duration::from_secs(second));
        }
        let kept = &readings.increases[0];
        assert_eq!(
            kept.counts.keys().collect::<Vec<_>>(),
            [&(names::DECISIONS, "other")]
        );
        assert!(
            kept.buckets.len() <= MAX_BOUNDS + 1,
            "{}",
            kept.buckets.len()
        );
        let now = traffic([&readings, &readings].into_iter());
        for quantile in [now.p50, now.p99] {
            let seconds = match quantile {
                Some(Quantile::Seconds(seconds) | Quantile::Above(seconds)) => seconds,
                None => continue,
            };
            assert!(!crate::text::latency(seconds).is_empty());
        }
    }

    #[test]
    fn a_quantile_above_the_last_bound_says_so() {
        let infinite = f64::INFINITY;
        assert_eq!(
            quantile(&[(1.0, 1.0), (infinite, 10.0)], 0.5),
            Some(Quantile::Above(1.0))
        );
        assert_eq!(quantile(&[(1.0, 0.0), (infinite, 0.0)], 0.5), None);
        assert_eq!(quantile(&[(1.0, 3.0)], 0.5), None);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
