//! [`Report`]: the printed report.

use std::fmt;
use std::time::Duration;

use super::Audit;
use crate::storm::number::{grouped, time};
use crate::storm::table::Table;

/// A run and its result.
#[derive(Debug)]
pub struct Report {
    /// The store.
    pub product: String,
    /// The number of consumers.
    pub consumers: usize,
    /// The seed.
    pub seed: u64,
    /// The number of orders.
    pub orders: usize,
    /// The number of messages.
    pub messages: u64,
    /// How many consumers were killed.
    pub killed: u64,
    /// How many were killed by a message.
    pub died: u64,
    /// The time of the run.
    pub elapsed: Duration,
    /// The result of the audit.
    pub audit: Audit,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (product, consumers) = (&self.product, self.consumers);
        writeln!(
            f,
            "{product}, NATS JetStream, {consumers} consumers, seed {}\n",
            self.seed
        )?;
        let mut table = Table::default();
        let mut row = |name: &str, number: u64, remark: &str| {
            table.row(name, grouped(number), remark);
        };
        row("orders", self.orders as u64, "");
        row(
            "messages",
            self.messages,
            "an order is published once or twice",
        );
        row(
            "killed",
            self.killed,
            "consumers, in the middle of their work",
        );
        row("died", self.died, "consumers, of the message that kills");
        row("shipped", self.audit.shipped, "once each");
        row(
            "taken over",
            self.audit.taken_over,
            "of them, from a dead consumer",
        );
        for (code, times) in &self.audit.failed {
            row("failed", *times, &format!("recorded as {code}"));
        }
        table.row("elapsed", time(self.elapsed), "");
        writeln!(f, "{table}")?;
        for line in &self.audit.wrong {
            writeln!(f, "WRONG: {line}")?;
        }
        match self.audit.wrong.is_empty() {
            true => writeln!(
                f,
                "Every order was shipped exactly once, or ended in failed because it is poison."
            ),
            false => writeln!(f, "Not every order came to its end exactly once."),
        }
    }
}
