//! SQLite.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_sqlite::{Config, SqliteStore};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, Connection, Row, SqlitePool};
use tokio::sync::Mutex;

use super::{POOL, namespace, statements};
use crate::backend::one_row;
use crate::{Backend, Handle, Rows, Share, Statements};

/// Each namespace is a folder with a database for the store and one for bare statements, which
/// would otherwise wait for each other's writes.
#[derive(Debug)]
pub(super) struct Sqlite;

async fn store(folder: &str) -> Result<SqliteStore, BoxError> {
    let file = Path::new(folder).join("idem.db");
    let url = format!("sqlite:{}", file.display());
    Ok(SqliteStore::connect(&url, Config::new()).await?)
}

/// Returns options as durable as the store's: WAL mode, `synchronous = FULL`.
fn options(folder: &str, file: &str) -> Result<SqliteConnectOptions, BoxError> {
    let file = Path::new(folder).join(file);
    let options = SqliteConnectOptions::from_str(&format!("sqlite:{}", file.display()))?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(30));
    Ok(options)
}

async fn execute(folder: &str, file: &str, sql: String) -> Result<(), BoxError> {
    let mut connection = SqliteConnection::connect_with(&options(folder, file)?).await?;
    let script = sqlx::raw_sql(AssertSqlSafe(sql));
    script.execute(&mut connection).await?;
    Ok(connection.close().await?)
}

#[async_trait]
impl Backend for Sqlite {
    fn name(&self) -> &str {
        "sqlite"
    }

    async fn create(&self) -> Result<String, BoxError> {
        let folder = std::env::temp_dir().join(namespace());
        std::fs::create_dir(&folder)?;
        let folder = folder.display().to_string();
        let store = store(&folder).await?;
        store.migrate().await?;
        store.close().await;
        execute(&folder, FILE, TABLE.to_owned()).await?;
        Ok(folder)
    }

    async fn open(&self, namespace: &str) -> Result<Handle, BoxError> {
        Ok(Handle::Batch(Arc::new(store(namespace).await?)))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        Ok(std::fs::remove_dir_all(namespace)?)
    }

    async fn pooled(&self, namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        let pool = SqlitePoolOptions::new().max_connections(POOL);
        let pool = pool.connect_with(options(namespace, FILE)?).await?;
        Ok(Some(Arc::new(Pooled(pool))))
    }

    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        let options = options(namespace, FILE)?;
        let connection = SqliteConnection::connect_with(&options).await?;
        Ok(Arc::new(Held(Mutex::new(connection))))
    }

    /// Only one connection writes at a time, and others wait for the lock by sleeping. So one
    /// uncontended connection, passed from caller to caller, is best.
    fn share(&self) -> Option<Share> {
        Some(Share::One)
    }

    async fn fill(&self, namespace: &str, rows: u64, what: Rows) -> Result<(), BoxError> {
        let fill = FILL
            .replace("{rows}", &rows.to_string())
            .replace("{ends}", &what.ends_in_micros().to_string());
        execute(namespace, "idem.db", fill).await
    }

    fn most_rows(&self) -> u64 {
        1_000_000
    }
}

const FILE: &str = "bare.db";

const TABLE: &str = "CREATE TABLE bare (id TEXT PRIMARY KEY, response BLOB)";
const INSERT: &str = "INSERT INTO bare (id) VALUES (?1) ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE bare SET response = ?2 WHERE id = ?1";
const SELECT: &str = "SELECT response FROM bare WHERE id = ?1";

struct Pooled(SqlitePool);
struct Held(Mutex<SqliteConnection>);

statements!(Pooled, self => &self.0);
statements!(Held, self => &mut *self.0.lock().await);

const FILL: &str = include_str!("fill/sqlite.sql");
