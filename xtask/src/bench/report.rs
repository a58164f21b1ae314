//! The report of a run: `bench.json`.

use std::path::Path;

use idem_bench_rows::{BACKENDS, Row};
use idem_servers::{Instance, Source};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::machine::Machine;

/// All measurements, and their machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Whether the rounds were few and short.
    pub(crate) quick: bool,
    pub(crate) servers: Vec<Facts>,
    pub(crate) rows: Vec<Row>,
}

/// A server in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) product: String,
    pub(crate) version: Option<String>,
    pub(crate) settings: String,
}

impl From<&Instance> for Facts {
    fn from(instance: &Instance) -> Self {
        let product = instance.product().clone();
        Self {
            name: instance.name().to_owned(),
            product: product.name,
            version: product.version,
            settings: settings(instance).to_owned(),
        }
    }
}

/// Returns the settings that a reader of the figures needs.
fn settings(instance: &Instance) -> &'static str {
    if instance.source() == Source::Env {
        return "its own";
    }
    match instance.name() {
        "postgres" => {
            "fsync, synchronous_commit, full_page_writes on; shared_buffers 1 GB, max_wal_size 4 GB"
        }
        "mariadb" => "innodb_flush_log_at_trx_commit 1, no binary log; buffer pool and log 1 GB",
        "mysql" => "innodb_flush_log_at_trx_commit 1, no binary log; buffer pool and redo log 1 GB",
        "redis" | "valkey" => "appendonly yes, appendfsync always, no snapshots",
        _ => "journal on; write concern majority, journaled",
    }
}

/// Reads a report, or the rows of a program.
///
/// # Errors
///
/// An error when there is no such file, or it has another form.
pub(crate) fn read<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read(file).map_err(|error| failed(&error))?;
    Ok(serde_json::from_slice(&text).map_err(|error| failed(&error))?)
}

impl Report {
    /// Keeps the figures of an earlier report that this one does not have, for a run of only some
    /// backends or paths. It ignores a report of another machine or with other rounds.
    pub(crate) fn keep_others_of(&mut self, earlier: Self) {
        let same = |machine: &Machine| (machine.cpu.clone(), machine.cores, machine.kernel.clone());
        if same(&earlier.machine) != same(&self.machine) || earlier.quick != self.quick {
            return;
        }
        let is_old = |old: &Row| {
            let mut new = self.rows.iter();
            !new.any(|row| (&row.path, &row.backend) == (&old.path, &old.backend))
        };
        let others: Vec<_> = earlier.rows.into_iter().filter(is_old).collect();
        self.rows.extend(others);
        for server in earlier.servers {
            if !self.servers.iter().any(|known| known.name == server.name) {
                self.servers.push(server);
            }
        }
    }

    /// Returns the rows in order of path, backend, and callers.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let place = |row: &Row| {
            let path = self.rows.iter().position(|other| other.path == row.path);
            let backend = BACKENDS.iter().position(|(name, ..)| *name == row.backend);
            (path, backend.unwrap_or(BACKENDS.len()), row.callers)
        };
        let mut rows = self.rows.clone();
        rows.sort_by_key(place);
        rows
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

    pub(crate) fn report(rows: Value) -> Report {
        Report {
            machine: Machine {
                cpu: "AMD EPYC".into(),
                cores: 2,
                memory: "23.5 GiB".into(),
                kernel: "Linux 6.1".into(),
                date: "2026-11-22".into(),
                sync_us: Some(812.0),
                load: Some(0.1),
            },
            quick: false,
            servers: Vec::new(),
            rows: serde_json::from_value(rows).unwrap(),
        }
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
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bench.json");
        let earlier =
            report(json!([{"path": "replay", "backend": "redis", "callers": 8, "ratio": 0.5}]));
        earlier.write(&file).unwrap();
        assert_eq!(read::<Report>(&file).unwrap(), earlier);
        let rows: idem_bench_rows::Report = read(&file).unwrap();
        assert_eq!(rows.rows, earlier.rows);
        std::fs::write(&file, r#"{"rows":[{"path":"replay"}]}"#).unwrap();
        let error = read::<idem_bench_rows::Report>(&file).unwrap_err();
        assert!(error.to_string().contains("bench.json"), "{error}");
    }
}
