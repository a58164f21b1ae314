use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::bench::backends::BACKENDS;
use crate::bench::facts::Facts;
use crate::bench::machine::Machine;
use crate::bench::row::Row;

/// All measurements, and their machine: `bench.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Whether the rounds were few and short.
    pub(crate) quick: bool,
    pub(crate) servers: Vec<Facts>,
    pub(crate) rows: Vec<Row>,
}

impl Report {
    /// Creates a report of these servers, without figures.
    pub(crate) fn new(machine: Machine, servers: Vec<Facts>, quick: bool) -> Self {
        Self {
            machine,
            quick,
            servers,
            rows: Vec::new(),
        }
    }

    /// Adds the rows that a program wrote to a file, `{"rows": […]}`.
    ///
    /// # Errors
    ///
    /// An error when the file cannot be read, or has another form.
    pub(crate) fn add_file(&mut self, file: &Path) -> Result {
        #[derive(Deserialize)]
        struct Rows {
            rows: Vec<Row>,
        }
        let returned = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = std::fs::read(file).map_err(|error| returned(&error))?;
        let all: Rows = serde_json::from_slice(&text).map_err(|error| returned(&error))?;
        self.rows.extend(all.rows);
        Ok(())
    }

    /// Keeps the figures of an earlier report that this one does not have, for a run of only some
    /// backends or paths. It ignores a report of another machine or with other rounds.
    pub(crate) fn keep_others_of(&mut self, earlier: Self) {
        let same = |machine: &Machine| (machine.cpu.clone(), machine.cores, machine.kernel.clone());
        if same(&earlier.machine) != same(&self.machine) || earlier.quick != self.quick {
            return;
        }
        let is_new = |old: &Row| {
            let mut new = self.rows.iter();
            new.any(|row| (&row.path, &row.backend) == (&old.path, &old.backend))
        };
        let others: Vec<_> = earlier
            .rows
            .into_iter()
            .filter(|row| !is_new(row))
            .collect();
        self.rows.extend(others);
        for server in earlier.servers {
            if !self.servers.iter().any(|known| known.name == server.name) {
                self.servers.push(server);
            }
        }
    }

    /// Returns the rows in order of path, backend, and callers.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows = self.rows.clone();
        let mut paths: Vec<String> = Vec::new();
        for row in &rows {
            if !paths.contains(&row.path) {
                paths.push(row.path.clone());
            }
        }
        let place = |row: &Row| {
            let path = paths.iter().position(|path| *path == row.path);
            let backend = BACKENDS.iter().position(|(name, _)| *name == row.backend);
            (path, backend.unwrap_or(BACKENDS.len()), row.callers)
        };
        rows.sort_by_key(place);
        rows
    }

    /// Reads a report.
    ///
    /// # Errors
    ///
    /// An error when there is none, or it has another form.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(file)?)?)
    }

    /// Writes the report.
    ///
    /// # Errors
    ///
    /// An error when the file cannot be written.
    pub(crate) fn write(&self, file: &Path) -> Result {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn machine() -> Machine {
        Machine {
            cpu: "AMD EPYC".into(),
            cores: 2,
            memory: "23.5 GiB".into(),
            kernel: "Linux 6.1".into(),
            date: "2026-11-22".into(),
            sync_us: Some(812.0),
            load: Some(0.1),
        }
    }

    fn report(rows: Value) -> Report {
        let mut report = Report::new(machine(), Vec::new(), false);
        report.rows = serde_json::from_value(rows).unwrap();
        report
    }

    fn named(report: &Report) -> Vec<String> {
        let rows = report.rows().into_iter();
        rows.map(|row| format!("{} {} {} {}", row.path, row.backend, row.callers, row.ratio))
            .collect()
    }

    #[test]
    fn rows_are_sorted_by_path_backend_and_callers() {
        let report = report(json!([
            {"path": "replay", "backend": "redis", "callers": 8, "ratio": 0.9},
            {"path": "replay", "backend": "postgres", "callers": 64, "ratio": 0.8},
            {"path": "claim_fresh", "backend": "memory", "callers": 1, "ratio": 0.7},
            {"path": "replay", "backend": "postgres", "callers": 8, "ratio": 0.6},
        ]));
        let expected = [
            "replay postgres 8 0.6",
            "replay postgres 64 0.8",
            "replay redis 8 0.9",
            "claim_fresh memory 1 0.7",
        ];
        assert_eq!(named(&report), expected);
    }

    #[test]
    fn what_was_measured_again_takes_the_place_of_what_was() {
        let earlier = report(json!([
            {"path": "replay", "backend": "redis", "callers": 8, "ratio": 0.5},
            {"path": "replay", "backend": "mongo", "callers": 8, "ratio": 0.5},
        ]));
        let mut now =
            report(json!([{"path": "replay", "backend": "redis", "callers": 1, "ratio": 0.9}]));
        now.keep_others_of(earlier.clone());
        assert_eq!(named(&now), ["replay redis 1 0.9", "replay mongo 8 0.5"]);
        let mut elsewhere = report(json!([]));
        elsewhere.machine.cpu = "another".into();
        elsewhere.keep_others_of(earlier);
        assert!(elsewhere.rows().is_empty());
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let folder = std::env::temp_dir().join(format!("idem-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("bench.json");
        let earlier =
            report(json!([{"path": "replay", "backend": "redis", "callers": 8, "ratio": 0.5}]));
        earlier.write(&file).unwrap();
        assert_eq!(Report::read(&file).unwrap(), earlier);
        let mut all = report(json!([]));
        all.add_file(&file).unwrap();
        assert_eq!(all.rows, earlier.rows);
        std::fs::write(&file, r#"{"rows":[{"path":"replay"}]}"#).unwrap();
        let error = all.add_file(&file).unwrap_err().to_string();
        assert!(error.contains("bench.json"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
