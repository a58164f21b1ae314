//! [`Progress`]: how long a run has taken, and how long it may still take.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::{Result, workspace};

/// The clock of a run: set-up, and several steps. How long each step took in the last run shows what
/// is left; the first run does not know.
#[derive(Debug)]
pub(crate) struct Progress {
    begun: Instant,
    step: Instant,
    /// The steps that have not ended, and how long they took in the last run.
    left: BTreeMap<String, Duration>,
    took: BTreeMap<String, Duration>,
    file: PathBuf,
}

impl Progress {
    /// Begins a run of steps with these names.
    pub(crate) fn begin(steps: impl IntoIterator<Item = String>) -> Result<Self> {
        let file = workspace::members()?.target_directory;
        let file = file.join("idem/times.json").into_std_path_buf();
        let took = std::fs::read_to_string(&file).unwrap_or_default();
        let took: BTreeMap<String, Duration> = serde_json::from_str(&took).unwrap_or_default();
        let known = |step: String| Some((step.clone(), *took.get(&step)?));
        Ok(Self {
            begun: Instant::now(),
            step: Instant::now(),
            left: steps.into_iter().filter_map(known).collect(),
            took,
            file,
        })
    }

    /// Begins the next step.
    pub(crate) fn next(&mut self) {
        self.step = Instant::now();
    }

    /// Ends this step.
    pub(crate) fn end(&mut self, step: &str) {
        self.left.remove(step);
        self.took.insert(step.to_owned(), self.step.elapsed());
        // Without the file the next run does not know what is left, and does all the same.
        let text = serde_json::to_string_pretty(&self.took).unwrap_or_default();
        let _ = std::fs::write(&self.file, text);
        self.next();
    }

    /// Returns `2 min spent, about 8 min left`.
    pub(crate) fn shown(&self) -> String {
        self.shown_after(self.begun.elapsed(), self.step.elapsed())
    }

    /// Returns the same for this time of the run, and of the step.
    fn shown_after(&self, run: Duration, step: Duration) -> String {
        let spent = minutes(run);
        let left: Duration = self.left.values().sum();
        match left.saturating_sub(step) {
            _ if self.left.is_empty() => format!("{spent} spent"),
            left => format!("{spent} spent, about {} left", minutes(left)),
        }
    }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_before_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = Duration::from_secs;
        let mut progress = Progress {
            begun: Instant::now(),
            step: Instant::now(),
            left: [
                ("a".to_owned(), seconds(80)),
                ("b".to_owned(), seconds(160)),
            ]
            .into(),
            took: BTreeMap::new(),
            file: folder.path().join("times.json"),
        };
        let shown = |progress: &Progress, run, step| {
            progress.shown_after(Duration::from_secs(run), Duration::from_secs(step))
        };
        assert_eq!(shown(&progress, 0, 0), "0 s spent, about 4 min left");
        progress.end("b");
        assert_eq!(shown(&progress, 170, 10), "3 min spent, about 70 s left");
        progress.end("a");
        assert_eq!(shown(&progress, 250, 0), "4 min spent");
        let kept = std::fs::read_to_string(&progress.file).unwrap();
        let kept: BTreeMap<String, Duration> = serde_json::from_str(&kept).unwrap();
        assert_eq!(kept, progress.took);
    }
}
