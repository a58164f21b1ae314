use serde::{Deserialize, Serialize};

/// Throughput and latency of one side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

/// One comparison, as the programs of `idem-benches` write it; a count if it has a unit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) path: String,
    pub(crate) backend: String,
    pub(crate) callers: u64,
    pub(crate) ratio: f64,
    #[serde(default)]
    pub(crate) baseline: String,
    #[serde(default)]
    pub(crate) unit: String,
    pub(crate) spread: Option<[f64; 2]>,
    pub(crate) idem: Option<Figures>,
    pub(crate) bare: Option<Figures>,
}

impl Row {
    /// Returns the lowest and the highest ratio of a repetition; `None` if all are equal.
    pub(crate) fn spread(&self) -> Option<[f64; 2]> {
        self.spread.filter(|[low, high]| low < high)
    }

    /// Returns the operations per second, the store's and the baseline's.
    pub(crate) fn per_second(&self) -> [Option<f64>; 2] {
        [self.idem, self.bare].map(|figures| Some(figures?.per_second))
    }

    /// Returns the 99th percentile of latency in microseconds, the store's and the baseline's.
    pub(crate) fn p99_us(&self) -> [Option<f64>; 2] {
        [self.idem, self.bare].map(|figures| figures?.p99_us)
    }
}

/// Formats a value: two digits after the point, three for a small number, none for a large one.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(text: &str) -> Row {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn numbers_have_as_many_digits_as_one_reads() {
        let all = [0.0, 0.012, 0.934, 2.5, 41.27, 412.0, 1_234_567.0].map(number);
        assert_eq!(
            all,
            ["0.00", "0.012", "0.93", "2.50", "41.3", "412", "1234567"]
        );
    }
}
