//! PostgreSQL's load generator, `pgbench`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::program::{self, arguments};
use super::{MOST_CONNECTIONS, PREFIX, ROWS, Statement};
use crate::{Contender, Length, Round};

/// `pgbench` with prepared statements, a connection for each caller up to 64, and two threads.
///
/// The keys of a caller grow, like those of a store whose ids carry a time. It counts whole
/// seconds, so a round lasts at least one. The time of connecting is not counted.
pub(super) struct Pgbench {
    program: PathBuf,
    url: String,
    statement: Statement,
    folder: TempDir,
    prepared: OnceCell<()>,
    /// Each round has its own keys.
    rounds: AtomicU64,
}

impl Pgbench {
    pub(super) fn new(url: &str, statement: Statement) -> Option<Self> {
        let program = program::find("pgbench", "postgres", "postgresql")?;
        let folder = tempfile::tempdir()
            .inspect_err(|error| eprintln!("pgbench: not run, it has no folder: {error}"));
        Some(Self {
            program,
            url: url.to_owned(),
            statement,
            folder: folder.ok()?,
            prepared: OnceCell::new(),
            rounds: AtomicU64::new(1),
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn table(&self) -> &'static str {
        match self.statement {
            Statement::Insert => "pgbench_bare_insert",
            Statement::Select => "pgbench_bare_select",
            Statement::InsertUpdate => "pgbench_bare_insert_update",
        }
    }

    /// Returns the statements that recreate the table, with the rows to read.
    fn tables(&self) -> String {
        let table = self.table();
        format!(
            "DROP TABLE IF EXISTS {table};\n\
             CREATE TABLE {table} (id TEXT PRIMARY KEY, response TEXT);\n\
             INSERT INTO {table} SELECT '{PREFIX}' || n, 'done' FROM generate_series({FIRST}, {FIRST} + {ROWS} - 1) AS n;\n\
             VACUUM ANALYZE {table};\n"
        )
    }

    /// Returns the script of the operation.
    fn script(&self) -> String {
        let table = self.table();
        let next = "\\set n :n + 1\n\
            \\set id :run * 1000000000000 + :client_id * 1000000000 + :n\n";
        let insert = format!(
            "INSERT INTO {table} (id) VALUES ('{PREFIX}' || :id) ON CONFLICT DO NOTHING;\n"
        );
        match self.statement {
            Statement::Insert => format!("{next}{insert}"),
            Statement::Select => format!(
                "\\set id random({FIRST}, {FIRST} + {ROWS} - 1)\n\
                 SELECT response FROM {table} WHERE id = '{PREFIX}' || :id;\n"
            ),
            Statement::InsertUpdate => format!(
                "{next}{insert}\
                 UPDATE {table} SET response = 'done' WHERE id = '{PREFIX}' || :id;\n"
            ),
        }
    }

    async fn prepare(&self) -> Result<(), BoxError> {
        let tables = self.file("tables.sql");
        std::fs::write(&tables, self.tables())?;
        std::fs::write(self.file("script.sql"), self.script())?;
        let mut once = arguments(["-n", "-t", "1", "-f"]);
        once.extend([tables.into(), self.url.clone().into()]);
        program::run(&self.program, once).await.map(drop)
    }
}

/// The smallest id; all ids have nineteen digits.
const FIRST: u64 = 1_000_000_000_000_000_000;

#[async_trait]
impl Contender for Pgbench {
    fn name(&self) -> &str {
        "pgbench"
    }

    async fn round(&self, callers: usize, length: Length) -> Result<Round, BoxError> {
        self.prepared.get_or_try_init(|| self.prepare()).await?;
        let run = FIRST / 1_000_000_000_000 + self.rounds.fetch_add(1, Ordering::Relaxed);
        let connections = callers.clamp(1, MOST_CONNECTIONS);
        let seconds = length.time()?.as_secs_f64().ceil().max(1.0);
        let mut all = arguments(["-n", "-M", "prepared", "-D", "n=0", "--log"]);
        all.extend(arguments([
            format!("--define=run={run}"),
            format!("--client={connections}"),
            format!("--jobs={}", connections.min(2)),
            format!("--time={seconds}"),
            format!("--log-prefix={}", self.file("log").display()),
            format!("--file={}", self.file("script.sql").display()),
            self.url.clone(),
        ]));
        let said = program::run(&self.program, all).await?;
        let (operations, elapsed) = read(&said).ok_or("pgbench says no tps")?;
        Ok(Round {
            operations,
            elapsed,
            latencies: Some(take_log(self.folder.path())?),
        })
    }
}

/// Reads the number of transactions, and their time without that of connecting.
fn read(said: &str) -> Option<(u64, Duration)> {
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
        let file = entry?.path();
        let name = file.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with("log.")) {
            for line in std::fs::read_to_string(&file)?.lines() {
                latencies.record(took(line).ok_or("pgbench's log is in no known form")?)?;
            }
            std::fs::remove_file(&file)?;
        }
    }
    Ok(latencies)
}

/// Reads the nanoseconds from `client transaction µs script second µs`.
fn took(line: &str) -> Option<u64> {
    line.split(' ')
        .nth(2)?
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000)
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
        let (operations, elapsed) = read(SAID).unwrap();
        assert_eq!(operations, 3554);
        assert_eq!(elapsed.as_millis(), 823);
        let once = SAID.replace("processed: 3554", "processed: 3554/3554");
        assert_eq!(read(&once).unwrap().0, 3554);
        assert_eq!(read("pgbench (15.18)\n"), None);
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
        let Some(pgbench) = Pgbench::new("postgres://nowhere/", Statement::InsertUpdate) else {
            return;
        };
        let script = pgbench.script();
        assert_eq!(script.matches('|').count(), 4);
        assert!(script.contains("INSERT INTO pgbench_bare_insert_update (id)"));
        assert!(script.contains("UPDATE pgbench_bare_insert_update SET"));
    }
}
