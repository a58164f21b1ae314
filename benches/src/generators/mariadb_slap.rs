//! MariaDB's load generator, `mariadb-slap`.

use std::time::Duration;

use url::Url;

use super::{Generator, PREFIX, ROWS, table, words};
use crate::Round;
use crate::operations::Life;

/// One less than the smallest id; ids are about as long as those of `UUID_SHORT()`.
const FIRST: u64 = 100_000_000_000_000_000;

/// `mariadb-slap`, with a connection for each caller up to 64. It sends each statement as text, and
/// makes keys on the server, with `UUID_SHORT()`. It does not report single latencies, and its time
/// includes connecting.
pub(super) fn generator(url: &str, life: &Life) -> Option<Generator> {
    let Some(server) = server(url) else {
        eprintln!("mariadb-slap: not run, it needs a URL with a host and a database");
        return None;
    };
    let table = table("slap", life);
    // Recreates the table, with the rows to read.
    let tables = format!(
        "DROP TABLE IF EXISTS {table};\
         CREATE TABLE {table} (id VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, \
         response LONGBLOB) ENGINE=InnoDB;\
         INSERT INTO {table} SELECT CONCAT('{PREFIX}', {FIRST} + seq), 'done' FROM seq_1_to_{ROWS}"
    );
    let key = format!("CONCAT('{PREFIX}', UUID_SHORT())");
    // A statement that takes its key from a variable uses the primary key, too.
    let script = match life {
        Life::Claim => format!("INSERT IGNORE INTO {table} (id) VALUES ({key})"),
        Life::Complete(_) => format!(
            "INSERT IGNORE INTO {table} (id) VALUES (@id := {key});\
             UPDATE {table} SET response = 'done' WHERE id = @id"
        ),
        Life::Replay => {
            let id = FIRST + 1;
            format!("SELECT response FROM {table} WHERE id = '{PREFIX}{id}'")
        }
    };
    Some(Generator {
        name: "mariadb-slap",
        origin: ("mariadb", "mariadb-client"),
        preparation: Some(lists(&server, 1, 1, &tables)),
        arguments: Box::new(move |work| lists(&server, work.connections, work.operations, &script)),
        read: Box::new(|said, work| {
            Some(Round {
                operations: work.operations,
                elapsed: Duration::from_secs_f64(seconds(said)?),
                latencies: None,
            })
        }),
        is_timed: false,
    })
}

/// Runs the whole list of statements this many times. It counts each of them as one.
fn lists(server: &[String], connections: usize, times: u64, sql: &str) -> Vec<String> {
    let statements = sql.split(';').count() as u64 * times;
    let mut all = words("--no-defaults --no-drop --csv --delimiter=;");
    all.extend_from_slice(server);
    all.extend([
        format!("--concurrency={connections}"),
        format!("--number-of-queries={statements}"),
        format!("--query={sql}"),
    ]);
    all
}

/// Converts `mysql://user:password@host:port/database` into options.
fn server(url: &str) -> Option<Vec<String>> {
    let url = Url::parse(url).ok()?;
    let database = url
        .path()
        .strip_prefix('/')
        .filter(|name| !name.is_empty())?;
    Some(vec![
        format!("--user={}", url.username()),
        format!("--password={}", url.password().unwrap_or_default()),
        format!("--host={}", url.host_str()?),
        format!("--port={}", url.port().unwrap_or(3306)),
        format!("--create-schema={database}"),
    ])
}

/// Reads the average time from `,mixed,0.529,0.529,0.529,64,100`: engine, kind, average time, and
/// more.
fn seconds(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains(','))?;
    line.split(',').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_the_time_of_the_only_run() {
        assert_eq!(seconds(",mixed,0.529,0.529,0.529,64,100\n"), Some(0.529));
        assert_eq!(seconds("mariadb-slap: no such table\n"), None);
    }

    #[test]
    fn a_url_becomes_options() {
        let all = server("mysql://idem:secret@127.0.0.1:3399/shop?ssl-mode=disabled").unwrap();
        let expected = [
            "--user=idem",
            "--password=secret",
            "--host=127.0.0.1",
            "--port=3399",
            "--create-schema=shop",
        ];
        assert_eq!(all, expected);
        assert_eq!(server("mysql://127.0.0.1"), None);
    }
}
