use serde::Deserialize;
use serde_json::Value;

use crate::Result;

const FILE: &str = "benches/reasons.toml";

/// Why targets are missed: the file that `ratios` has built in, read anew, so that a reason that a profile has shown
/// can be told of figures that are there already.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Reasons {
    #[serde(default)]
    reason: Vec<Reason>,
}

/// What is left out fits everything; a `*` at the end of a name stands for any end.
#[derive(Debug, Deserialize)]
struct Reason {
    path: Option<String>,
    backend: Option<String>,
    baseline: Option<String>,
    callers: Option<Vec<u64>>,
    text: String,
}

impl Reasons {
    /// Those of the workspace.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(crate) fn read() -> Result<Self> {
        let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
        Ok(toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))?)
    }

    /// Gives a row that misses its target the first reason that fits; one that no reason fits keeps its own.
    pub(crate) fn explain(&self, row: &mut Value) {
        if row["met"] == Value::Bool(false)
            && let Some(reason) = self.reason.iter().find(|reason| reason.fits(row))
        {
            row["reason"] = Value::from(reason.text.as_str());
        }
    }
}

impl Reason {
    fn fits(&self, row: &Value) -> bool {
        let fits = |pattern: &Option<String>, name: &Value| {
            let name = name.as_str().unwrap_or_default();
            pattern
                .as_ref()
                .is_none_or(|pattern| match pattern.strip_suffix('*') {
                    Some(beginning) => name.starts_with(beginning),
                    None => name == pattern,
                })
        };
        let callers = row["callers"].as_u64().unwrap_or_default();
        fits(&self.path, &row["path"])
            && fits(&self.backend, &row["backend"])
            && fits(&self.baseline, &row["baseline"])
            && self
                .callers
                .as_ref()
                .is_none_or(|all| all.contains(&callers))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_miss_is_explained_anew() {
        let text = "
            [[reason]]
            path = 'claim_*'
            callers = [64, 512]
            text = 'the log'
            [[reason]]
            backend = 'mysql'
            text = 'another'";
        let reasons: Reasons = toml::from_str(text).unwrap();
        let reason = |backend: &str, callers: u64, met: bool| {
            let mut row = json!({"path": "claim_fresh", "backend": backend, "baseline": "bare held",
                "callers": callers, "met": met, "reason": "as it was"});
            reasons.explain(&mut row);
            row["reason"].as_str().unwrap().to_owned()
        };
        assert_eq!(reason("mariadb", 64, false), "the log");
        assert_eq!(reason("mysql", 8, false), "another");
        assert_eq!(reason("mariadb", 8, false), "as it was");
        assert_eq!(reason("mariadb", 64, true), "as it was");
    }
}
