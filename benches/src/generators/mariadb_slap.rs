//! MariaDB's own: `mariadb-slap`.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use tokio::sync::OnceCell;

use super::program::{self, arguments};
use super::rates::Rates;
use super::{MOST_CONNECTIONS, PREFIX, ROWS, Statement};
use crate::{Contender, Round};

/// `mariadb-slap`, a connection for each caller up to 64. It sends each statement as text, and makes keys on the
/// server, by `UUID_SHORT()`.
///
/// It counts statements, not time: how many make a round is learnt from the round before. It says nothing of single
/// latencies, and the time that it tells has that of connecting in it.
pub struct MariadbSlap {
    program: PathBuf,
    server: Vec<OsString>,
    statement: Statement,
    prepared: OnceCell<()>,
    rates: Rates,
}

impl MariadbSlap {
    /// On the server at `url`; none if the program is missing, with a line about that on standard error.
    #[must_use]
    pub fn new(url: &str, statement: Statement) -> Option<Self> {
        let Some(server) = server(url) else {
            eprintln!("mariadb-slap: not run, it needs a URL with a user, a host and a database");
            return None;
        };
        Some(Self {
            program: program::find("mariadb-slap", "mariadb-client")?,
            server,
            statement,
            prepared: OnceCell::new(),
            rates: Rates::default(),
        })
    }

    fn table(&self) -> &'static str {
        match self.statement {
            Statement::Insert => "slap_bare_insert",
            Statement::Select => "slap_bare_select",
            Statement::InsertUpdate => "slap_bare_insert_update",
        }
    }

    /// The table, anew, with the rows that are read.
    fn tables(&self) -> String {
        let table = self.table();
        format!(
            "DROP TABLE IF EXISTS {table};\
             CREATE TABLE {table} (id VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, \
             response LONGBLOB) ENGINE=InnoDB;\
             INSERT INTO {table} SELECT CONCAT('{PREFIX}', {FIRST} + seq), 'done' FROM seq_1_to_{ROWS}"
        )
    }

    /// One operation. A statement that finds its key in a variable finds it by the primary key, too.
    fn script(&self) -> String {
        let table = self.table();
        match self.statement {
            Statement::Insert => {
                format!("INSERT IGNORE INTO {table} (id) VALUES (CONCAT('{PREFIX}', UUID_SHORT()))")
            }
            Statement::Select => {
                format!(
                    "SELECT response FROM {table} WHERE id = '{PREFIX}{}'",
                    FIRST + 1
                )
            }
            Statement::InsertUpdate => format!(
                "INSERT IGNORE INTO {table} (id) VALUES (@id := CONCAT('{PREFIX}', UUID_SHORT()));\
                 UPDATE {table} SET response = 'done' WHERE id = @id"
            ),
        }
    }

    async fn run(
        &self,
        connections: usize,
        statements: u64,
        sql: String,
    ) -> Result<String, BoxError> {
        let mut all = arguments(["--no-defaults", "--no-drop", "--csv", "--delimiter=;"]);
        all.extend(self.server.clone());
        all.extend(arguments([
            format!("--concurrency={connections}"),
            format!("--number-of-queries={statements}"),
            format!("--query={sql}"),
        ]));
        program::run(&self.program, all).await
    }

    /// Each of the statements counts as one, and it runs the whole list as often as they fit in.
    async fn timed(&self, connections: usize, operations: u64) -> Result<Round, BoxError> {
        let script = self.script();
        let statements = script.split(';').count() as u64 * operations;
        let said = self.run(connections, statements, script).await?;
        let elapsed = seconds(&said).ok_or("mariadb-slap says no time")?;
        let round = Round {
            operations: operations / connections as u64 * connections as u64,
            elapsed: Duration::from_secs_f64(elapsed.max(0.001)),
            latencies: None,
        };
        self.rates.note(connections, round.per_second());
        Ok(round)
    }

    async fn prepare(&self) -> Result<(), BoxError> {
        let tables = self.tables();
        let statements = tables.split(';').count() as u64;
        self.run(1, statements, tables).await?;
        Ok(())
    }
}

/// One less than the least of the ids, which are about as long as those of `UUID_SHORT()`.
const FIRST: u64 = 100_000_000_000_000_000;

#[async_trait]
impl Contender for MariadbSlap {
    fn name(&self) -> &str {
        "mariadb-slap"
    }

    async fn round(&self, callers: usize, length: Duration) -> Result<Round, BoxError> {
        let connections = callers.clamp(1, MOST_CONNECTIONS);
        self.prepared.get_or_try_init(|| self.prepare()).await?;
        if self.rates.operations(connections, length).is_none() {
            self.timed(connections, Rates::first(connections)).await?;
        }
        let operations = self.rates.operations(connections, length);
        self.timed(connections, operations.unwrap_or(1)).await
    }
}

/// Without the password.
impl fmt::Debug for MariadbSlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MariadbSlap")
            .field("program", &self.program)
            .field("statement", &self.statement)
            .finish_non_exhaustive()
    }
}

/// `mysql://user:password@host:port/database` as options.
fn server(url: &str) -> Option<Vec<OsString>> {
    let (_, rest) = url.split_once("://")?;
    let rest = rest.split(['?', '#']).next()?;
    let (login, place) = rest.rsplit_once('@')?;
    let (address, database) = place.split_once('/')?;
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "3306"));
    Some(arguments([
        format!("--user={user}"),
        format!("--password={password}"),
        format!("--host={host}"),
        format!("--port={port}"),
        format!("--create-schema={database}"),
    ]))
}

/// `,mixed,0.529,0.529,0.529,64,100`: engine, kind, then the average time.
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

    #[test]
    fn the_password_is_not_shown() {
        if let Some(slap) = MariadbSlap::new("mysql://i:secret@h/d", Statement::Insert) {
            assert!(!format!("{slap:?}").contains("secret"));
        }
    }
}
