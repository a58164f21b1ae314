//! PostgreSQL's load generator, `pgbench`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use idem_core::BoxError;

use super::{Generator, PREFIX, ROWS, table, words};
use crate::Round;
use crate::operations::Life;

/// The smallest id; all ids have nineteen digits.
const FIRST: u64 = 1_000_000_000_000_000_000;

/// `pgbench` with prepared statements, a connection for each caller up to 64, and two threads.
///
/// The keys of a caller grow, like those of a store whose ids carry a time. It counts whole
/// seconds, so a round lasts at least one. The time of connecting is not counted.
pub(super) fn generator(url: String, life: &Life) -> std::io::Result<Generator> {
    // The scripts, and the logs of a round.
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (tables_file, script_file, log) = (file("tables.sql"), file("script.sql"), file("log"));
    std::fs::write(&tables_file, tables(life))?;
    std::fs::write(&script_file, script(life))?;
    let mut preparation = words("-n -t 1");
    preparation.extend([format!("--file={tables_file}"), url.clone()]);
    // Each round has its own keys.
    let rounds = AtomicU64::new(FIRST / 1_000_000_000_000 + 1);
    Ok(Generator {
        name: "pgbench",
        origin: ("postgres", "postgresql"),
        preparation: Some(preparation),
        arguments: Box::new(move |work| {
            let (run, connections) = (rounds.fetch_add(1, Ordering::Relaxed), work.connections);
            let mut all = words("-n -M prepared -D n=0 --log");
            all.extend([
                format!("--define=run={run}"),
                format!("--client={connections}"),
                format!("--jobs={}", connections.min(2)),
                format!("--time={}", work.length.as_secs_f64().ceil().max(1.0)),
                format!("--log-prefix={log}"),
                format!("--file={script_file}"),
                url.clone(),
            ]);
            all
        }),
        read: Box::new(move |said, _| {
            let (operations, elapsed) = operations(said)?;
            let latencies = take_log(folder.path());
            let latencies = latencies.inspect_err(|error| eprintln!("pgbench's log: {error}"));
            Some(Round {
                operations,
                elapsed,
                latencies: Some(latencies.ok()?),
            })
        }),
        is_timed: true,
    })
}

/// Returns the statements that recreate the table, with the rows to read.
fn tables(life: &Life) -> String {
    let table = table("pgbench", life);
    format!(
        "DROP TABLE IF EXISTS {table};\n\
         CREATE TABLE {table} (id TEXT PRIMARY KEY, response TEXT);\n\
         INSERT INTO {table} SELECT '{PREFIX}' || n, 'done' FROM generate_series({FIRST}, {FIRST} + {ROWS} - 1) AS n;\n\
         VACUUM ANALYZE {table};\n"
    )
}

/// Returns the script of the operation.
fn script(life: &Life) -> String {
    let table = table("pgbench", life);
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
