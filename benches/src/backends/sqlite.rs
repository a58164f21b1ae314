//! SQLite.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_conformance::Profile;
use idem_core::BoxError;
use idem_stores::{Sqlite, Suite};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, SqlitePool};
use tokio::sync::Mutex;

use super::sql::{POOL, fill, statements};
use crate::backend::one_row;
use crate::{Backend, Baseline, Statements};

/// The statements have a database of their own in the namespace's folder: in the store's they would
/// wait for its writes.
struct Bare;

/// Returns SQLite in this process.
pub(super) fn backend() -> Backend {
    Backend::new(Suite::new("sqlite", Sqlite, Profile::new())).with_baseline(Bare)
}

/// Returns options as durable as the store's: WAL mode, `synchronous = FULL`.
fn options(folder: &str, file: &str) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(Path::new(folder).join(file))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(30))
}

async fn execute(folder: &str, file: &str, sql: String) -> Result<(), BoxError> {
    let mut connection = options(folder, file).connect().await?;
    let script = sqlx::raw_sql(AssertSqlSafe(sql));
    script.execute(&mut connection).await?;
    Ok(connection.close().await?)
}

#[async_trait]
impl Baseline for Bare {
    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        execute(namespace, FILE, TABLE.to_owned()).await
    }

    async fn pooled(&self, namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        let pool = SqlitePoolOptions::new().max_connections(POOL);
        let pool = pool.connect_with(options(namespace, FILE)).await?;
        Ok(Some(Arc::new(Pooled(pool))))
    }

    /// Only one connection writes at a time, and others wait for the lock by sleeping. So one
    /// uncontended connection, passed from caller to caller, is best.
    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        let connection = options(namespace, FILE).connect().await?;
        Ok(Arc::new(Held(Mutex::new(connection))))
    }

    async fn fill(&self, namespace: &str, rows: u64, ends_in: i64) -> Result<(), BoxError> {
        execute(namespace, Sqlite::FILE, fill(FILL, rows, ends_in)).await
    }

    fn most_rows(&self) -> u64 {
        1_000_000
    }
}

const FILE: &str = "bare.db";

const TABLE: &str = "CREATE TABLE bare (id TEXT PRIMARY KEY, response BLOB)";
const INSERT: &str = "INSERT INTO bare (id) VALUES (?1) ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE bare SET response = ?1 WHERE id = ?2";
const SELECT: &str = "SELECT response FROM bare WHERE id = ?1";

statements!(Pooled(SqlitePool), self => &self.0);
statements!(Held(Mutex<SqliteConnection>), self => &mut *self.0.lock().await);

const FILL: &str = include_str!("fill/sqlite.sql");
