//! The machine, for readers of results.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The facts that a reader of the figures needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    /// The day, in UTC.
    pub(crate) date: String,
    /// The time to force a page to the disk, in microseconds: the median of a hundred.
    pub(crate) sync_us: Option<f64>,
    /// The load average of the last minute before the run.
    pub(crate) load: Option<f64>,
}

impl Machine {
    /// Describes this machine. Unknown facts are `unknown`.
    pub(crate) fn here() -> Self {
        let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let kernel = file("/proc/sys/kernel/osrelease");
        Self {
            cpu: field(&file("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory(&file("/proc/meminfo")),
            kernel: known(&format!("Linux {}", kernel.trim())),
            date: jiff::Timestamp::now().strftime("%F").to_string(),
            sync_us: sync().ok(),
            load: load(&file("/proc/loadavg")),
        }
    }
}

/// Returns the first number of `0.52 0.58 0.59 1/467 12345`.
fn load(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

fn known(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { "unknown" } else { text }.to_owned()
}

/// Returns the value of a line such as `model name : AMD EPYC`.
fn field(text: &str, name: &str) -> String {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(key, _)| key.trim() == name);
    known(found.map_or("", |(_, value)| value))
}

fn memory(text: &str) -> String {
    let kibibytes = field(text, "MemTotal");
    match kibibytes.trim_end_matches(" kB").parse::<f64>() {
        Ok(number) => format!("{:.1} GiB", number / (1024.0 * 1024.0)),
        Err(_) => kibibytes,
    }
}

/// Measures where the servers have their data, too.
fn sync() -> std::io::Result<f64> {
    let mut file = tempfile::tempfile()?;
    let page = [0; 4096];
    let mut measured = [Duration::ZERO; 100];
    for measured in &mut measured {
        let begin = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        *measured = begin.elapsed();
    }
    measured.sort();
    Ok(measured[measured.len() / 2].as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_the_kernel() {
        let cpu = "processor\t: 0\nmodel name\t: AMD EPYC 7B13\n";
        assert_eq!(field(cpu, "model name"), "AMD EPYC 7B13");
        assert_eq!(field("", "model name"), "unknown");
        assert_eq!(memory("MemTotal:       24689436 kB\n"), "23.5 GiB");
        assert_eq!(load("0.52 0.58 0.59 1/467 12345\n"), Some(0.52));
        assert!(Machine::here().sync_us.is_some());
    }
}
