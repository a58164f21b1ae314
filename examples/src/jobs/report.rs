//! [`Report`]: the printed report, and the audit.

use std::fmt;
use std::time::Duration;

use idem_core::{BoxError, IdempotencyStore, Record};

use super::Mail;
use crate::effects::Effect;
use crate::storm::number::{grouped, time};
use crate::storm::table::Table;

/// A run and its result.
#[derive(Debug, Default)]
pub struct Report {
    /// The store.
    pub product: String,
    /// The seed.
    pub seed: u64,
    /// How many jobs were pushed.
    pub pushed: usize,
    /// How many different jobs there were.
    pub mails: usize,
    /// How often a worker began to send a mail.
    pub begun: u64,
    /// How many mails were sent.
    pub sent: u64,
    /// How many mails cannot be sent.
    pub failed: u64,
    /// The time of the run.
    pub elapsed: Duration,
    /// The errors found.
    pub wrong: Vec<String>,
}

/// Compares the pushed jobs with the sent mails, and completes `report`.
///
/// # Errors
///
/// An error when the store does not answer.
pub async fn judge(
    mut report: Report,
    store: &dyn IdempotencyStore,
    mails: &[Mail],
    effects: &[Effect],
) -> Result<Report, BoxError> {
    for mail in mails {
        let times = effects
            .iter()
            .filter(|effect| effect.id == mail.order)
            .count();
        let is_failed = matches!(store.get(&mail.key()?).await?, Some(Record::Failed(_)));
        match (mail.has_address(), is_failed, times) {
            (true, false, 1) => report.sent += 1,
            (false, true, 0) => report.failed += 1,
            _ => {
                let line = format!("the mail of {} was sent {times} times", mail.order);
                report.wrong.push(line);
            }
        }
    }
    Ok(report)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, two apalis workers, seed {}\n",
            self.product, self.seed
        )?;
        let mut table = Table::default();
        let mut row = |name: &str, number: u64, remark: &str| {
            table.row(name, grouped(number), remark);
        };
        row("pushed", self.pushed as u64, "jobs");
        row("mails", self.mails as u64, "each pushed one to three times");
        row(
            "begun",
            self.begun,
            "the post office is closed now and then, and tried again",
        );
        row("sent", self.sent, "once each");
        row("failed", self.failed, "no address: tried once, recorded");
        table.row("elapsed", time(self.elapsed), "");
        writeln!(f, "{table}")?;
        for line in &self.wrong {
            writeln!(f, "WRONG: {line}")?;
        }
        match self.wrong.is_empty() {
            true => writeln!(
                f,
                "Every mail was sent exactly once, or failed because it has no address."
            ),
            false => writeln!(f, "Not every mail was sent exactly once."),
        }
    }
}
