//! The table at the end of a test run.

use serde::{Deserialize, Serialize};

use crate::columns::aligned;

/// A suite's report of one backend.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Report {
    pub(crate) backend: String,
    product: String,
    version: String,
    pub(crate) passed: u64,
    pub(crate) ignored: u64,
    pub(crate) failed: u64,
    failures: Vec<Failure>,
    missing: Option<String>,
}

/// A case that failed.
#[derive(Debug, Clone, Deserialize)]
struct Failure {
    case: String,
    message: String,
}

/// The same for JSON.
#[derive(Debug, Serialize)]
struct Row<'r> {
    backend: &'r str,
    product: Option<&'r str>,
    version: Option<&'r str>,
    passed: u64,
    ignored: u64,
    failed: u64,
}

impl Report {
    /// Reports a suite that ended without a report as one failure.
    pub(crate) fn broken(package: &str) -> Self {
        Self {
            backend: package.to_owned(),
            product: "the suite ended without a report".to_owned(),
            version: String::new(),
            passed: 0,
            ignored: 0,
            failed: 1,
            failures: Vec::new(),
            missing: None,
        }
    }

    /// Returns a line for each case that failed: its name as a filter takes it, and what it said.
    pub(crate) fn failures(&self) -> impl Iterator<Item = String> {
        let line =
            |Failure { case, message }: &Failure| format!("{}::{case}: {message}", self.backend);
        self.failures.iter().map(line)
    }

    fn ran(&self) -> String {
        match &self.missing {
            Some(_) => "not run, see below".to_owned(),
            None => format!("{} {}", self.product, self.version),
        }
    }

    fn row(&self) -> Row<'_> {
        let ran = |text| (self.missing.is_none() && !str::is_empty(text)).then_some(text);
        Row {
            backend: &self.backend,
            product: ran(&self.product),
            version: ran(&self.version),
            passed: self.passed,
            ignored: self.ignored,
            failed: self.failed,
        }
    }
}

/// Returns an aligned table, and below it why backends did not run.
pub(crate) fn table(reports: &[Report]) -> String {
    let head = [
        ("backend", false),
        ("product and version that ran", false),
        ("passed", true),
        ("ignored", true),
        ("failed", true),
    ];
    let line = |report: &Report| {
        let counts = [report.passed, report.ignored, report.failed];
        let words = [report.backend.clone(), report.ran()].into_iter();
        words.chain(counts.map(|count| count.to_string())).collect()
    };
    let mut text = aligned(&head, reports.iter().map(line).collect());
    for report in reports {
        if let Some(reason) = &report.missing {
            text.push_str(&format!("\n{} is not run: {reason}\n", report.backend));
        }
    }
    text
}

/// Returns the same as an array of JSON objects.
pub(crate) fn json(reports: &[Report]) -> serde_json::Result<String> {
    let rows: Vec<_> = reports.iter().map(Report::row).collect();
    serde_json::to_string_pretty(&rows).map(|text| text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports() -> Vec<Report> {
        serde_json::from_str(
            r#"[{"backend":"memory","product":"MemoryStore","version":"0.1.0","passed":97,"ignored":2,"failed":0,
                "failures":[],"missing":null},
               {"backend":"postgres","product":"","version":"","passed":0,"ignored":99,"failed":0,
                "failures":[],"missing":"no server"}]"#,
        )
        .unwrap()
    }

    #[test]
    fn a_missing_server_is_shown_as_not_run() {
        let expected = "\
backend   product and version that ran  passed  ignored  failed
memory    MemoryStore 0.1.0                 97        2       0
postgres  not run, see below                 0       99       0

postgres is not run: no server
";
        assert_eq!(table(&reports()), expected);
    }

    #[test]
    fn a_failure_is_told_by_name_and_message() {
        let report: Report = serde_json::from_str(
            r#"{"backend":"mysql","product":"MySQL","version":"9","passed":1,"ignored":0,"failed":1,
                "failures":[{"case":"law01::a_race","message":"two winners"}],"missing":null}"#,
        )
        .unwrap();
        let lines: Vec<_> = report.failures().collect();
        assert_eq!(lines, ["mysql::law01::a_race: two winners"]);
    }

    #[test]
    fn machines_get_exactly_six_fields() {
        let rows: serde_json::Value = serde_json::from_str(&json(&reports()).unwrap()).unwrap();
        assert_eq!(rows[0].as_object().unwrap().len(), 6);
        assert_eq!(rows[0]["version"], "0.1.0");
        assert!(rows[1]["product"].is_null() && rows[1]["version"].is_null());
        assert_eq!(rows[1]["ignored"], 99);
    }
}
