//! Instructions per operation, counted by callgrind: numbers that do not depend on the machine's
//! load.

use std::path::{Path, PathBuf};

use idem_bench_rows::Row;
use serde_json::Value;

use crate::bench::report;
use crate::{Result, step, tools, workspace};

/// The name of the benchmark in `idem-benches`, and of its feature.
pub(crate) const NAME: &str = "instructions";

/// Operations per count: the constant of the same name in `benches/benches/instructions.rs`.
const OPERATIONS: f64 = 1000.0;

/// If callgrind is not available, the counts are left out.
const VALGRIND: &str = "valgrind";

/// Returns the program that starts callgrind, in the version that the benchmarks were built with;
/// installs it into the target folder if it is missing.
///
/// # Errors
///
/// An error when it, or valgrind, is not available.
pub(crate) fn runner(target: &Path) -> Result<PathBuf> {
    if !step::has(VALGRIND, &["--version"]) {
        tools::packages(&[VALGRIND])?;
    }
    if let Some(program) = std::env::var_os("GUNGRAUN_RUNNER") {
        return Ok(program.into());
    }
    let workspace = workspace::all()?;
    let mut packages = workspace.packages.iter();
    let library = packages.find(|package| package.name == "gungraun");
    let version = &library.ok_or("nothing depends on gungraun")?.version;
    tools::crate_program("gungraun-runner", Some(&version.to_string()), target)
}

/// Returns the folder of the summaries.
fn folder(target: &Path) -> PathBuf {
    target.join("gungraun/idem-benches").join(NAME)
}

/// Removes the summaries of an earlier run, and nothing else of callgrind.
pub(crate) fn forget(target: &Path) {
    for file in summaries(&folder(target)) {
        let _ = std::fs::remove_file(file);
    }
}

/// Reads the rows from the summaries.
///
/// # Errors
///
/// An error when a summary has another form.
pub(crate) fn rows(target: &Path) -> Result<Vec<Row>> {
    let read = |file: PathBuf| {
        let summary: Value = report::read(&file)?;
        row(&summary).ok_or_else(|| format!("{}: no count", file.display()).into())
    };
    summaries(&folder(target)).into_iter().map(read).collect()
}

fn row(summary: &Value) -> Option<Row> {
    let profiles = summary["profiles"].as_array()?;
    let callgrind = profiles
        .iter()
        .find(|profile| profile["tool"] == "Callgrind")?;
    let metrics = &callgrind["data"]["total"]["metrics"];
    let count = metrics["Ir"]["values"]["new"].as_f64()?;
    let name = summary["function_name"].as_str()?;
    Some(Row {
        path: format!("{NAME}_{name}"),
        backend: "memory".to_owned(),
        callers: 1,
        ratio: (count / OPERATIONS).round(),
        unit: "per operation".to_owned(),
        ..Row::default()
    })
}

/// Returns the summary of each benchmark of each group, in the order of names.
fn summaries(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let benchmarks = entries(folder.to_owned()).flat_map(entries);
    let summaries = benchmarks.map(|benchmark| benchmark.join("summary.json"));
    let mut summaries: Vec<_> = summaries.filter(|file| file.is_file()).collect();
    summaries.sort();
    summaries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_a_summary_is_that_of_one_operation() {
        let target = tempfile::tempdir().unwrap();
        let target = target.path();
        let place = folder(target).join("store/batched_claim");
        std::fs::create_dir_all(&place).unwrap();
        let text = r#"{"function_name":"batched_claim","group":"store","profiles":[{"tool":"Callgrind","data":
            {"parts":[],"total":{"metrics":{"D1mr":{"values":{"new":15645}},
            "Ir":{"values":{"new":3131262,"old":3131000}}},"regressions":[]}}}]}"#;
        std::fs::write(place.join("summary.json"), text).unwrap();
        let found = rows(target).unwrap();
        assert_eq!(found[0].path, "instructions_batched_claim");
        assert_eq!(found[0].ratio, 3131.0);
        std::fs::write(place.join("summary.json"), "{}").unwrap();
        assert!(rows(target).is_err());
        forget(target);
        assert!(rows(target).unwrap().is_empty());
    }
}
