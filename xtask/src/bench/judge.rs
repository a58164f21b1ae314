//! Compares figures with their targets, and gives the reason of a miss.

use serde::Deserialize;

use crate::Result;
use crate::bench::row::{Row, number};

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
    callers: Option<Vec<u64>>,
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

/// A row with its target and, if it misses it, the reason.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) row: Row,
    pub(crate) target: Option<Target>,
    /// Empty if the row has no target or meets it.
    pub(crate) reason: String,
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

    /// Assigns each row the first target, and the first reason, that matches it.
    pub(crate) fn judge(&self, rows: Vec<Row>) -> Vec<Judged> {
        rows.into_iter().map(|row| self.judged(row)).collect()
    }

    fn judged(&self, row: Row) -> Judged {
        let target = self.target.iter().find(|target| target.fits.row(&row));
        let reason = match target {
            Some(target) if !target.is_met(row.ratio) => {
                let reason = self.reason.iter().find(|reason| reason.fits.row(&row));
                reason.map_or("Not explained.", |reason| reason.text.trim())
            }
            _ => "",
        };
        Judged {
            target: target.cloned(),
            reason: reason.to_owned(),
            row,
        }
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

impl Judged {
    /// Returns whether the row meets its target; `None` if it has none.
    pub(crate) fn is_met(&self) -> Option<bool> {
        Some(self.target.as_ref()?.is_met(self.row.ratio))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bench::row::tests::row;

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

    fn judged(path: &str, backend: &str, callers: u64, ratio: f64) -> (Option<bool>, String) {
        let row = row(&format!(
            r#"{{"path":"{path}","backend":"{backend}","callers":{callers},"ratio":{ratio}}}"#
        ));
        let judged = judge().judged(row);
        (judged.is_met(), judged.reason)
    }

    #[test]
    fn a_miss_has_the_first_reason_that_fits() {
        let missed = |reason: &str| (Some(false), reason.to_owned());
        assert_eq!(judged("replay", "mysql", 64, 0.8), missed("The log."));
        assert_eq!(judged("replay", "mysql", 8, 0.8), missed("Two statements."));
        assert_eq!(judged("replay", "redis", 8, 0.8), missed("Not explained."));
        assert_eq!(
            judged("contended", "redis", 8, 4.1),
            missed("Not explained.")
        );
    }

    #[test]
    fn a_row_that_meets_its_target_or_has_none_needs_no_reason() {
        let met = (Some(true), String::new());
        assert_eq!(judged("replay", "mysql", 64, 0.9), met);
        assert_eq!(judged("contended", "mysql", 64, 3.9), met);
        assert_eq!(judged("payload_0", "mysql", 64, 0.1), (None, String::new()));
    }

    #[test]
    fn every_target_of_the_files_has_one_bound() {
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        for target in Judge::read().unwrap().target {
            let bounds = [target.at_least, target.at_most];
            assert_eq!(bounds.into_iter().flatten().count(), 1, "{target:?}");
        }
    }
}
