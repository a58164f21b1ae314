//! [`Reasons`]: why a target is missed.

use idem_core::BoxError;
use serde::Deserialize;

use crate::Row;

/// Why targets are missed, as profiles have shown: `reasons.toml`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Reasons {
    #[serde(default)]
    reason: Vec<Reason>,
}

/// One of them. What is left out fits everything; a `*` at the end of a name stands for any end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    path: Option<String>,
    backend: Option<String>,
    baseline: Option<String>,
    callers: Option<Vec<usize>>,
    text: String,
}

fn fits(pattern: Option<&String>, name: &str) -> bool {
    pattern.is_none_or(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    })
}

impl Reason {
    fn fits(&self, row: &Row) -> bool {
        let Self { callers, .. } = self;
        fits(self.path.as_ref(), &row.path)
            && fits(self.backend.as_ref(), &row.backend)
            && fits(self.baseline.as_ref(), &row.baseline)
            && callers
                .as_ref()
                .is_none_or(|all| all.contains(&row.callers))
    }
}

impl Reasons {
    /// Those that this crate knows.
    ///
    /// # Errors
    ///
    /// That the file cannot be read, of which a test makes sure that it can.
    pub fn known() -> Result<Self, BoxError> {
        Ok(toml::from_str(include_str!("../reasons.toml"))?)
    }

    /// The row with the first reason that fits, if it misses its target.
    #[must_use]
    pub fn explain(&self, mut row: Row) -> Row {
        if row.met == Some(false) {
            let known = self.reason.iter().find(|reason| reason.fits(&row));
            row.reason = known
                .map_or("not explained", |reason| &reason.text)
                .to_owned();
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ratio;

    fn missed(callers: usize) -> Row {
        let spread = [0.1, 0.1];
        let ratio = Ratio {
            median: 0.1,
            spread,
        };
        Row::new(("claim_fresh", "mariadb", callers), "bare held", ratio).judged()
    }

    #[test]
    fn the_file_can_be_read() {
        Reasons::known().unwrap();
    }

    #[test]
    fn the_first_reason_that_fits_is_told_of_a_row_that_misses() {
        let text = "
            [[reason]]
            path = 'claim_*'
            callers = [64, 512]
            text = 'the log'
            [[reason]]
            backend = 'mysql'
            text = 'another'";
        let reasons: Reasons = toml::from_str(text).unwrap();
        assert_eq!(reasons.explain(missed(64)).reason, "the log");
        assert_eq!(reasons.explain(missed(8)).reason, "not explained");
        let mut met = missed(64);
        met.met = Some(true);
        assert_eq!(reasons.explain(met).reason, "");
    }
}
