//! MariaDB's load generator, `mariadb-slap`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use hdrhistogram::Histogram;
use idem_core::BoxError;
use url::Url;

use super::program::{self, arguments};
use super::{Generator, PREFIX, ROWS, Statement};

/// `mariadb-slap`, with a connection for each caller up to 64. It sends each statement as text, and
/// makes keys on the server, with `UUID_SHORT()`. It does not report single latencies, and its time
/// includes connecting.
pub(super) struct MariadbSlap {
    program: PathBuf,
    server: Vec<OsString>,
    statement: Statement,
}

/// One less than the smallest id; ids are about as long as those of `UUID_SHORT()`.
const FIRST: u64 = 100_000_000_000_000_000;

impl MariadbSlap {
    pub(super) fn new(url: &str, statement: Statement) -> Option<Self> {
        let Some(server) = server(url) else {
            eprintln!("mariadb-slap: not run, it needs a URL with a host and a database");
            return None;
        };
        Some(Self {
            program: program::find("mariadb-slap", "mariadb", "mariadb-client")?,
            server,
            statement,
        })
    }

    fn table(&self) -> &'static str {
        match self.statement {
            Statement::Insert => "slap_bare_insert",
            Statement::Select => "slap_bare_select",
            Statement::InsertUpdate => "slap_bare_insert_update",
        }
    }

    /// Returns one operation. A statement that takes its key from a variable uses the primary key,
    /// too.
    fn script(&self) -> String {
        let table = self.table();
        match self.statement {
            Statement::Insert => {
                format!("INSERT IGNORE INTO {table} (id) VALUES (CONCAT('{PREFIX}', UUID_SHORT()))")
            }
            Statement::Select => {
                let id = FIRST + 1;
                format!("SELECT response FROM {table} WHERE id = '{PREFIX}{id}'")
            }
            Statement::InsertUpdate => format!(
                "INSERT IGNORE INTO {table} (id) VALUES (@id := CONCAT('{PREFIX}', UUID_SHORT()));\
                 UPDATE {table} SET response = 'done' WHERE id = @id"
            ),
        }
    }

    /// Runs the whole list this many times. It counts each of the statements as one.
    async fn lists(&self, connections: usize, times: u64, sql: &str) -> Result<String, BoxError> {
        let statements = sql.split(';').count() as u64 * times;
        let mut all = arguments(["--no-defaults", "--no-drop", "--csv", "--delimiter=;"]);
        all.extend(self.server.clone());
        all.extend(arguments([
            format!("--concurrency={connections}"),
            format!("--number-of-queries={statements}"),
            format!("--query={sql}"),
        ]));
        program::run(&self.program, all).await
    }
}

#[async_trait]
impl Generator for MariadbSlap {
    const NAME: &'static str = "mariadb-slap";

    /// Recreates the table, with the rows to read.
    async fn prepare(&self) -> Result<(), BoxError> {
        let table = self.table();
        let sql = format!(
            "DROP TABLE IF EXISTS {table};\
             CREATE TABLE {table} (id VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, \
             response LONGBLOB) ENGINE=InnoDB;\
             INSERT INTO {table} SELECT CONCAT('{PREFIX}', {FIRST} + seq), 'done' FROM seq_1_to_{ROWS}"
        );
        self.lists(1, 1, &sql).await.map(drop)
    }

    async fn run(
        &self,
        connections: usize,
        operations: u64,
    ) -> Result<(Duration, Option<Histogram<u64>>), BoxError> {
        let said = self.lists(connections, operations, &self.script()).await?;
        let elapsed = seconds(&said).ok_or("mariadb-slap says no time")?;
        Ok((Duration::from_secs_f64(elapsed), None))
    }
}

/// Converts `mysql://user:password@host:port/database` into options.
fn server(url: &str) -> Option<Vec<OsString>> {
    let url = Url::parse(url).ok()?;
    let database = url
        .path()
        .strip_prefix('/')
        .filter(|name| !name.is_empty())?;
    Some(arguments([
        format!("--user={}", url.username()),
        format!("--password={}", url.password().unwrap_or_default()),
        format!("--host={}", url.host_str()?),
        format!("--port={}", url.port().unwrap_or(3306)),
        format!("--create-schema={database}"),
    ]))
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
