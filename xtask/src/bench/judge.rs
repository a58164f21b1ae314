//! Compares figures with their targets, and gives the reason of a miss.

use idem_bench_rows::Row;
use serde::Deserialize;

use crate::Result;

/// The files with targets and reasons.
const FILES: [&str; 2] = ["benches/targets.toml", "benches/reasons.toml"];

/// All targets and reasons.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Judge {
    #[serde(default)]
    target: Vec<Target>,
    #[serde(default)]
    reason: Vec<Reason>,
}

/// The rows that an entry applies to. A missing field matches everything.
#[derive(Debug, Clone, Deserialize)]
struct Fits {
    /// A `*` at its end matches any suffix.
    path: Option<String>,
    backends: Option<Vec<String>>,
    baseline: Option<String>,
    callers: Option<Vec<usize>>,
}

/// The condition on a ratio: exactly one of the two bounds is set.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Target {
    #[serde(flatten)]
    fits: Fits,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Reason {
    #[serde(flatten)]
    fits: Fits,
    text: String,
}

/// A row with its target.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) row: Row,
    pub(crate) target: Option<(Target, Verdict)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    /// With the number of the reason.
    Missed(usize),
}

/// Rows with their targets, and the reasons of the misses.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) rows: Vec<Judged>,
    /// Each once; the first has the number 1.
    pub(crate) reasons: Vec<String>,
}

impl Judge {
    /// Reads the files of the workspace.
    ///
    /// # Errors
    ///
    /// An error when a file cannot be read.
    pub(crate) fn read() -> Result<Self> {
        let mut text = String::new();
        for file in FILES {
            let read = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            text.push_str(&read);
        }
        Ok(toml::from_str(&text).map_err(|error| format!("{}: {error}", FILES.join(", ")))?)
    }

    /// Assigns each row the first target, and each miss the first reason, that matches it.
    pub(crate) fn judge(&self, rows: Vec<Row>) -> Judgement {
        let mut judgement = Judgement::default();
        for row in rows {
            let target = self.target.iter().find(|target| target.fits.row(&row));
            let target = target.map(|target| {
                let verdict = match target.is_met(row.ratio) {
                    true => Verdict::Met,
                    false => judgement.missed(self.reason(&row)),
                };
                (target.clone(), verdict)
            });
            judgement.rows.push(Judged { row, target });
        }
        judgement
    }

    fn reason(&self, row: &Row) -> &str {
        let reason = self.reason.iter().find(|reason| reason.fits.row(row));
        reason.map_or("Not explained.", |reason| reason.text.trim())
    }
}

impl Judgement {
    fn missed(&mut self, reason: &str) -> Verdict {
        let known = self.reasons.iter().position(|known| known == reason);
        let index = known.unwrap_or_else(|| {
            self.reasons.push(reason.to_owned());
            self.reasons.len() - 1
        });
        Verdict::Missed(index + 1)
    }
}

impl Fits {
    fn row(&self, row: &Row) -> bool {
        let path = |pattern: &String| match pattern.strip_suffix('*') {
            Some(beginning) => row.path.starts_with(beginning),
            None => row.path == *pattern,
        };
        self.path.as_ref().is_none_or(path)
            && (self.backends.as_ref()).is_none_or(|names| names.contains(&row.backend))
            && (self.baseline.as_ref()).is_none_or(|name| row.baseline == *name)
            && (self.callers.as_ref()).is_none_or(|all| all.contains(&row.callers))
    }
}

impl Target {
    fn is_met(&self, ratio: f64) -> bool {
        self.at_least.is_none_or(|least| ratio >= least)
            && self.at_most.is_none_or(|most| ratio <= most)
    }
}

/// Formats the target, such as `>= 0.90`.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.at_least, self.at_most) {
            (Some(least), _) => write!(f, ">= {}", number(least)),
            (None, most) => write!(f, "<= {}", number(most.unwrap_or(f64::INFINITY))),
        }
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

    pub(crate) fn judge() -> Judge {
        let text = "
            [[target]]
            path = 'replay'
            at_least = 0.9
            [[target]]
            path = 'contended'
            at_most = 4.0
            [[reason]]
            path = 'rep*'
            callers = [64, 512]
            text = 'The log.'
            [[reason]]
            backends = ['mysql', 'mongo']
            text = 'Two statements.'";
        toml::from_str(text).unwrap()
    }

    pub(crate) fn row(text: &str) -> Row {
        serde_json::from_str(text).unwrap()
    }

    /// Returns whether the row meets its target, and the reason if it does not.
    fn judged(path: &str, backend: &str, callers: usize, ratio: f64) -> Option<Option<String>> {
        let row = row(&format!(
            r#"{{"path":"{path}","backend":"{backend}","callers":{callers},"ratio":{ratio}}}"#
        ));
        let judgement = judge().judge(vec![row]);
        match judgement.rows[0].target.as_ref()?.1 {
            Verdict::Met => Some(None),
            Verdict::Missed(number) => Some(Some(judgement.reasons[number - 1].clone())),
        }
    }

    #[test]
    fn a_miss_has_the_first_reason_that_fits() {
        let missed = |reason: &str| Some(Some(reason.to_owned()));
        assert_eq!(judged("replay", "mysql", 64, 0.8), missed("The log."));
        assert_eq!(judged("replay", "mysql", 8, 0.8), missed("Two statements."));
        for (path, ratio) in [("replay", 0.8), ("contended", 4.1)] {
            assert_eq!(judged(path, "redis", 8, ratio), missed("Not explained."));
        }
    }

    #[test]
    fn a_row_that_meets_its_target_or_has_none_needs_no_reason() {
        assert_eq!(judged("replay", "mysql", 64, 0.9), Some(None));
        assert_eq!(judged("contended", "mysql", 64, 3.9), Some(None));
        assert_eq!(judged("payload_0", "mysql", 64, 0.1), None);
    }

    #[test]
    fn every_target_of_the_files_has_one_bound() {
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        for target in Judge::read().unwrap().target {
            let bounds = [target.at_least, target.at_most];
            assert_eq!(bounds.into_iter().flatten().count(), 1, "{target:?}");
        }
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
