//! [`Report`]: the printed report.

use std::fmt;
use std::time::Duration;

use super::Tally;
use crate::storm::number::{grouped, time};
use crate::storm::table::Table;

/// A run and its result.
#[derive(Debug)]
pub struct Report {
    /// The store.
    pub product: String,
    /// The number of events.
    pub events: usize,
    /// The number of effects.
    pub effects: usize,
    /// The number of planned deliveries.
    pub deliveries: usize,
    /// The number of concurrent deliveries.
    pub concurrency: usize,
    /// The seed.
    pub seed: u64,
    /// The answers to the sender.
    pub tally: Tally,
    /// The time of the run.
    pub elapsed: Duration,
    /// The errors found.
    pub wrong: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (events, concurrency) = (self.events, self.concurrency);
        let head = format!(
            "{events} events, {concurrency} deliveries at once, seed {}",
            self.seed
        );
        writeln!(f, "{}, {head}\n", self.product)?;
        let mut table = Table::default();
        let mut row = |name: &str, number: u64, remark: &str| {
            table.row(name, grouped(number), remark);
        };
        row(
            "deliveries",
            self.deliveries as u64,
            "each event one to four times, shuffled",
        );
        row(
            "effects",
            self.effects as u64,
            "one of each event that was not refused for its version",
        );
        for ((status, text), times) in &self.tally.answers {
            row(&status.to_string(), *times, text);
        }
        row(
            "hung up",
            self.tally.hung_up,
            "before the answer came; sent again",
        );
        table.row("elapsed", time(self.elapsed), "");
        writeln!(f, "{table}")?;
        for line in &self.wrong {
            writeln!(f, "WRONG: {line}")?;
        }
        match self.wrong.is_empty() {
            true => writeln!(
                f,
                "Every event had one effect, or was refused because a later one had come."
            ),
            false => writeln!(f, "Not every event had one effect."),
        }
    }
}
