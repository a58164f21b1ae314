//! nextest's report of its last run, in JUnit format.

use std::path::PathBuf;

use crate::Result;
use crate::workspace;

/// Returns the path of the report: nextest keeps its store in the workspace, wherever the target
/// folder is.
fn report() -> Result<PathBuf> {
    let root = workspace::members()?.workspace_root;
    Ok(root.join("target/nextest/default/junit.xml").into())
}

/// Removes the report of an earlier run.
pub(crate) fn forget() -> Result {
    // A missing report need not be removed.
    let _ = std::fs::remove_file(report()?);
    Ok(())
}

/// Returns the failed tests, by program and name; none without a report.
pub(crate) fn failed() -> Result<Vec<String>> {
    let report = std::fs::read_to_string(report()?);
    Ok(report.map(|report| names(&report)).unwrap_or_default())
}

fn names(report: &str) -> Vec<String> {
    let cases = report.split("<testcase ").skip(1);
    let failed = cases.filter(|case| case.contains("<failure") || case.contains("<error"));
    let name = |case: &str| {
        let program = attribute(case, "classname")?;
        Some(format!("{program} {}", attribute(case, "name")?))
    };
    failed.filter_map(name).collect()
}

fn attribute<'c>(case: &'c str, name: &str) -> Option<&'c str> {
    let (_, rest) = case.split_once(&format!("{name}=\""))?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_failed_are_named() {
        let report = r#"<testsuites><testsuite name="idem-core::engine">
            <testcase name="run::fine" classname="idem-core::engine" time="0.1">
            </testcase>
            <testcase name="run::broken" classname="idem-core::engine" time="0.1">
                <failure type="test failure"/>
            </testcase></testsuite></testsuites>"#;
        assert_eq!(names(report), ["idem-core::engine run::broken"]);
        assert!(names("").is_empty());
    }
}
