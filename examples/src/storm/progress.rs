//! [`show`]: the progress of a run.

use std::convert::Infallible;
use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::lane::Storm;
use super::tally::Tally;

/// How often the bar changes.
const TICK: Duration = Duration::from_millis(100);

/// How often a line is written without a terminal.
const PERIOD: Duration = Duration::from_secs(10);

/// Shows a bar on a terminal, until the future is dropped; otherwise writes a line on standard
/// error now and then.
pub(crate) async fn show(storm: &Storm) -> Infallible {
    let total = storm.plan.deliveries.len() as u64;
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template(
        "{bar:30.cyan/dim} {percent:>3} %  {human_pos}/{human_len}  {msg}  {elapsed}",
    ) {
        bar.set_style(style);
    }
    let mut next_line = Instant::now() + PERIOD;
    loop {
        tokio::time::sleep(TICK).await;
        let counts = |tally: &mut Tally| (tally.answered, tally.fresh, tally.all_crashes());
        let (answered, effects, crashes) = storm.with_tally(counts);
        let (effects, crashes) = (HumanCount(effects), HumanCount(crashes));
        bar.set_position(answered);
        bar.set_message(format!("effects {effects}  crashes {crashes}"));
        if bar.is_hidden() && Instant::now() >= next_line {
            next_line += PERIOD;
            let (answered, total) = (HumanCount(answered), HumanCount(total));
            // A failed write of progress does not stop the run.
            let _ = writeln!(
                stderr(),
                "storm: {answered} of {total} deliveries, {effects} effects, {crashes} crashes"
            );
        }
    }
}
