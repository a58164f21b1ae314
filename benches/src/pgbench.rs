//! PostgreSQL's load generator, `pgbench`, as a [`Contender`].
//!
//! It makes its own table, with keys as long as the store's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::operations::Life;
use crate::{Contender, Length, Round};

/// Most connections that it opens, so that the server refuses none.
const MOST_CONNECTIONS: usize = 64;

/// The number of keys to read.
const ROWS: usize = 10_000;

/// The beginning of keys, as long as the store's scope and operation.
const PREFIX: &str = "bench payments.create ";

/// The smallest id; all ids have nineteen digits.
const FIRST: u64 = 1_000_000_000_000_000_000;

/// `pgbench` with prepared statements, a connection for each caller up to 64, and two threads.
///
/// The keys of a caller grow, like those of a store whose ids carry a time. It counts whole
/// seconds, so a round lasts at least one. The time of connecting is not counted.
pub(crate) struct Pgbench {
    program: PathBuf,
    url: String,
    /// The scripts, and the logs of a round.
    folder: TempDir,
    prepared: OnceCell<()>,
    /// Each round has its own keys.
    rounds: AtomicU64,
}

impl Pgbench {
    /// Returns the generator for this path of a backend, at 64 callers. Returns `None` for the
    /// other ones, or, with a line on standard error, if the program is missing.
    pub(crate) fn of(path: &str, backend: &str, callers: usize) -> Option<Box<dyn Contender>> {
        let life = match (path, backend, callers) {
            ("claim_fresh", "postgres", 64) => Life::Claim,
            ("claim_complete", "postgres", 64) => Life::complete(),
            ("replay", "postgres", 64) => Life::Replay,
            _ => return None,
        };
        let url = idem_servers::url_for("postgres")?;
        let made = program().and_then(|program| Self::new(program, url, &life));
        let made = made.inspect_err(|error| eprintln!("pgbench: not run: {error}"));
        Some(Box::new(made.ok()?))
    }

    fn new(program: PathBuf, url: String, life: &Life) -> Result<Self, BoxError> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("tables.sql"), tables(life))?;
        std::fs::write(folder.path().join("script.sql"), script(life))?;
        Ok(Self {
            program,
            url,
            folder,
            prepared: OnceCell::new(),
            rounds: AtomicU64::new(FIRST / 1_000_000_000_000 + 1),
        })
    }

    /// Runs a script to its end, on a thread of its own, and returns the output.
    async fn run(&self, options: &str, script: &str) -> Result<String, BoxError> {
        let mut command = Command::new(&self.program);
        let file = |name| self.folder.path().join(name);
        command
            .args(options.split(' '))
            .arg("--log-prefix")
            .arg(file("log"));
        command.arg("--file").arg(file(script)).arg(&self.url);
        command.stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("pgbench: {}", errors.trim()).into())
    }
}

#[async_trait]
impl Contender for Pgbench {
    fn name(&self) -> &str {
        "pgbench"
    }

    async fn round(&self, callers: usize, length: Length) -> Result<Round, BoxError> {
        let prepare = async || self.run("-n -t 1", "tables.sql").await.map(drop);
        self.prepared.get_or_try_init(prepare).await?;
        let connections = callers.clamp(1, MOST_CONNECTIONS);
        let (jobs, run) = (
            connections.min(2),
            self.rounds.fetch_add(1, Ordering::Relaxed),
        );
        let seconds = length.time()?.as_secs_f64().ceil().max(1.0);
        let options = format!(
            "-n -M prepared -D n=0 -D run={run} -c {connections} -j {jobs} -T {seconds} --log"
        );
        let said = self.run(&options, "script.sql").await?;
        let (operations, elapsed) = operations(&said).ok_or("pgbench has another form")?;
        Ok(Round {
            operations,
            elapsed,
            latencies: Some(take_log(self.folder.path())?),
        })
    }
}

/// Returns the program: in a folder of `$PATH`, or beside the programs of the server.
fn program() -> Result<PathBuf, BoxError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let server = idem_servers::server("postgres").ok();
    let found = std::env::split_paths(&path)
        .chain(server.and_then(idem_servers::Server::programs))
        .map(|folder| folder.join("pgbench"))
        .find(|program| program.is_file());
    Ok(found.ok_or("it is not installed (Debian's package `postgresql` has it)")?)
}

/// Returns the name of the table for these statements.
fn table(life: &Life) -> &'static str {
    match life {
        Life::Claim => "pgbench_bare_insert",
        Life::Complete(_) => "pgbench_bare_insert_update",
        Life::Replay => "pgbench_bare_select",
    }
}

/// Returns the statements that recreate the table, with the rows to read.
fn tables(life: &Life) -> String {
    let table = table(life);
    format!(
        "DROP TABLE IF EXISTS {table};\n\
         CREATE TABLE {table} (id TEXT PRIMARY KEY, response TEXT);\n\
         INSERT INTO {table} SELECT '{PREFIX}' || n, 'done' FROM generate_series({FIRST}, {FIRST} + {ROWS} - 1) AS n;\n\
         VACUUM ANALYZE {table};\n"
    )
}

/// Returns the script of the operation.
fn script(life: &Life) -> String {
    let table = table(life);
    let insert = format!(
        "\\set n :n + 1\n\
         \\set id :run * 1000000000000 + :client_id * 1000000000 + :n\n\
         INSERT INTO {table} (id) VALUES ('{PREFIX}' || :id) ON CONFLICT DO NOTHING;\n"
    );
    match life {
        Life::Claim => insert,
        Life::Complete(_) => {
            format!("{insert}UPDATE {table} SET response = 'done' WHERE id = '{PREFIX}' || :id;\n")
        }
        Life::Replay => format!(
            "\\set id random({FIRST}, {FIRST} + {ROWS} - 1)\n\
             SELECT response FROM {table} WHERE id = '{PREFIX}' || :id;\n"
        ),
    }
}

/// Reads the number of transactions, and their time without that of connecting.
fn operations(said: &str) -> Option<(u64, Duration)> {
    let after = |start: &str| said.lines().find_map(|line| line.strip_prefix(start));
    let operations = after("number of transactions actually processed: ")?;
    let operations: u64 = operations.split('/').next()?.trim().parse().ok()?;
    let rate: f64 = after("tps = ")?.split(' ').next()?.parse().ok()?;
    let elapsed = Duration::try_from_secs_f64(operations as f64 / rate).ok()?;
    Some((operations, elapsed))
}

/// Reads how long each transaction took, and removes the files with these times.
fn take_log(folder: &Path) -> Result<Histogram<u64>, BoxError> {
    let mut latencies = Histogram::new(3)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("log.") {
            for line in std::fs::read_to_string(entry.path())?.lines() {
                // `client transaction µs script second µs`
                let microseconds = line.split(' ').nth(2).and_then(|took| took.parse().ok());
                let microseconds: u64 = microseconds.ok_or("a line is in no known form")?;
                latencies.record(microseconds.saturating_mul(1_000))?;
            }
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: cc.sql
scaling factor: 1
query mode: prepared
number of clients: 64
number of threads: 2
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 3554
number of failed transactions: 0 (0.000%)
latency average = 14.824 ms
initial connection time = 262.757 ms
tps = 4317.188216 (without initial connection time)
";

    #[test]
    fn the_rate_is_that_without_connecting() {
        let (operations, elapsed) = operations(SAID).unwrap();
        assert_eq!(operations, 3554);
        assert_eq!(elapsed.as_millis(), 823);
        let once = SAID.replace("processed: 3554", "processed: 3554/3554");
        assert_eq!(super::operations(&once).unwrap().0, 3554);
        assert_eq!(super::operations("pgbench (15.18)\n"), None);
    }

    #[test]
    fn latencies_come_from_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        log(
            "log.12596",
            "0 1 78291 0 1795328045 148716\n1 1 77794 0 1795328045 148749\n",
        );
        log("log.12596.1", "32 1 79073 0 1795328045 149525\n");
        log("script.sql", "SELECT 1;\n");
        let latencies = take_log(folder.path()).unwrap();
        assert_eq!(latencies.len(), 3);
        let median = latencies.value_at_quantile(0.5);
        assert!((78_200_000..78_400_000).contains(&median), "{median}");
        // A second round begins with no files.
        assert_eq!(take_log(folder.path()).unwrap().len(), 0);
    }

    #[test]
    fn claim_and_completion_are_two_statements_on_one_key() {
        let script = script(&Life::complete());
        assert_eq!(script.matches('|').count(), 4);
        assert!(script.contains("INSERT INTO pgbench_bare_insert_update (id)"));
        assert!(script.contains("UPDATE pgbench_bare_insert_update SET"));
    }
}
