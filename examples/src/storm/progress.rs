//! [`Progress`]: the progress of a run.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::tally::Tally;

/// How often a line is written without a terminal.
const PERIOD: Duration = Duration::from_secs(10);

/// A bar on a terminal; otherwise a line on standard error now and then.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    next_line: Instant,
}

impl Progress {
    pub(crate) fn new(total: u64) -> Self {
        let style = ProgressStyle::with_template(
            "{bar:30.cyan/dim} {percent:>3} %  {human_pos}/{human_len}  {msg}  {elapsed}",
        );
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            total,
            next_line: Instant::now() + PERIOD,
        }
    }

    pub(crate) fn show(&mut self, tally: &Tally) {
        let effects = HumanCount(tally.fresh);
        let crashes = HumanCount(tally.all_crashes());
        if let Some(bar) = &self.bar {
            bar.set_position(tally.answered);
            bar.set_message(format!("effects {effects}  crashes {crashes}"));
        } else if Instant::now() >= self.next_line {
            self.next_line += PERIOD;
            // A failed write of progress does not stop the run.
            let _ = writeln!(
                stderr(),
                "storm: {} of {} deliveries, {effects} effects, {crashes} crashes",
                HumanCount(tally.answered),
                HumanCount(self.total),
            );
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
