//! Tables for a terminal, and that at the end of a test run.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::{Deserialize, Deserializer, Serialize};

/// A suite's report of one backend. Its JSON leaves out failures and reasons.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub(crate) struct Report {
    pub(crate) backend: String,
    #[serde(deserialize_with = "known")]
    product: Option<String>,
    #[serde(deserialize_with = "known")]
    version: Option<String>,
    pub(crate) passed: u64,
    pub(crate) ignored: u64,
    pub(crate) failed: u64,
    #[serde(skip_serializing)]
    failures: Vec<Failure>,
    #[serde(skip_serializing)]
    pub(crate) missing: Option<String>,
    #[serde(skip_serializing, default)]
    pub(crate) passed_cases: Vec<String>,
}

/// A case that failed.
#[derive(Debug, Clone, Deserialize)]
struct Failure {
    case: String,
    message: String,
}

/// Reads a text; a backend that did not run has empty ones.
fn known<'de, D: Deserializer<'de>>(text: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(text)?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

impl Report {
    /// Reports a suite that ended without a report as one failure.
    pub(crate) fn broken(package: &str) -> Self {
        Self {
            backend: package.to_owned(),
            product: Some("the suite ended without a report".to_owned()),
            failed: 1,
            ..Self::default()
        }
    }

    /// Returns a line for each case that failed: its name as a filter takes it, and what it said.
    pub(crate) fn failures(&self) -> impl Iterator<Item = String> {
        let line =
            |Failure { case, message }: &Failure| format!("{}::{case}: {message}", self.backend);
        self.failures.iter().map(line)
    }

    /// Returns what ran and how it ended, in a line.
    pub(crate) fn line(&self) -> String {
        let (backend, ran) = (&self.backend, self.ran());
        let (passed, failed) = (self.passed, self.failed);
        format!("{backend}: {ran}: {passed} passed, {failed} failed")
    }

    fn ran(&self) -> String {
        match &self.missing {
            Some(_) => "not run, see below".to_owned(),
            None => {
                let ran = [&self.product, &self.version].into_iter().flatten();
                ran.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
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

/// Returns the same as a table of Markdown.
pub(crate) fn markdown(reports: &[Report]) -> String {
    let mut text = "| backend | product and version | passed | ignored | failed |\n\
                    | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for report in reports {
        let (backend, ran) = (&report.backend, report.ran().replace(", see below", ""));
        let (passed, ignored, failed) = (report.passed, report.ignored, report.failed);
        text.push_str(&format!(
            "| `{backend}` | {ran} | {passed} | {ignored} | {failed} |\n"
        ));
    }
    text
}

/// Returns the same as an array of JSON objects.
pub(crate) fn json(reports: &[Report]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(reports).map(|text| text + "\n")
}

/// Aligns cells in columns, numbers to the right.
pub(crate) fn aligned(columns: &[(&str, bool)], lines: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|(name, _)| *name));
    table.add_rows(lines);
    for ((_, is_number), column) in columns.iter().zip(table.column_iter_mut()) {
        column.set_padding((0, 2));
        if *is_number {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
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
        assert!(markdown(&reports()).ends_with("| `postgres` | not run | 0 | 99 | 0 |\n"));
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
