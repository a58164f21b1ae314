//! SQLite.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_conformance::{Harness, Product, Profile};
use idem_core::{BatchStore, BoxError, IdempotencyStore};
use idem_sqlite::{Config, SqliteStore};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, Connection, Row, SqlitePool};
use tokio::sync::Mutex;

use super::{POOL, namespace, statements};
use crate::bare::one_row;
use crate::{Bare, Filler, Rows, Share, Statements, Subject};

/// Each namespace is a folder with a database for the store and one for bare statements, which would otherwise wait for
/// each other's writes.
#[derive(Debug)]
struct Sqlite;

pub(super) fn subject() -> Subject {
    let sqlite = Arc::new(Sqlite);
    Subject::new(Arc::clone(&sqlite) as Arc<dyn Harness>)
        .with_bare(Arc::clone(&sqlite) as Arc<dyn Bare>)
        .with_filler(sqlite)
}

async fn store(folder: &str) -> Result<SqliteStore, BoxError> {
    let file = Path::new(folder).join("idem.db");
    let url = format!("sqlite:{}", file.display());
    Ok(SqliteStore::connect(&url, Config::new()).await?)
}

/// As durable as the store: WAL mode, `synchronous = FULL`.
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
impl Harness for Sqlite {
    fn name(&self) -> &str {
        "sqlite"
    }

    fn profile(&self) -> Profile {
        Profile::new().durable().batch()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
        let version = sqlx::query_scalar("SELECT sqlite_version()");
        let version: String = version.fetch_one(&mut connection).await?;
        Ok(Product::new("SQLite", version))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let folder = std::env::temp_dir().join(namespace());
        std::fs::create_dir(&folder)?;
        let folder = folder.display().to_string();
        let store = store(&folder).await?;
        store.migrate().await?;
        store.close().await;
        Ok(folder)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(store(namespace).await?))
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(store(namespace).await?)))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        Ok(std::fs::remove_dir_all(namespace)?)
    }
}

const FILE: &str = "bare.db";

#[async_trait]
impl Bare for Sqlite {
    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        let table = "CREATE TABLE bare (id TEXT PRIMARY KEY, response BLOB)";
        execute(namespace, FILE, table.to_owned()).await
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

    /// Only one writes at a time, and those who wait for the lock do so by sleeping: one connection that nobody contends
    /// with, handed from caller to caller, is best.
    fn share(&self) -> Share {
        Share::One
    }
}

const INSERT: &str = "INSERT INTO bare (id) VALUES (?1) ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE bare SET response = ?2 WHERE id = ?1";
const SELECT: &str = "SELECT response FROM bare WHERE id = ?1";

struct Pooled(SqlitePool);
struct Held(Mutex<SqliteConnection>);

statements!(Pooled, self => &self.0);
statements!(Held, self => &mut *self.0.lock().await);

const FILL: &str = "
INSERT INTO idem_records (scope, operation, id, token, state, attempts, created_at, lease_ends_at,
    expires_at, purge_at, sealed_at, fingerprint, attempt_id, result)
WITH RECURSIVE
    numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {rows}),
    moment (now) AS (SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER))
SELECT 'bench', 'payments.create', lower(hex(randomblob(16))) AS id, now - 86400000000, 1, 1,
    now - 86400000000, now - 86400000000, now + {ends}, now + {ends}, now - 86400000000,
    unhex('01' || printf('%.64c', 'a')), randomblob(16), randomblob(100)
FROM numbers, moment ORDER BY id;
PRAGMA wal_checkpoint(TRUNCATE);";

#[async_trait]
impl Filler for Sqlite {
    async fn fill(&self, namespace: &str, rows: u64, what: Rows) -> Result<(), BoxError> {
        let fill = FILL
            .replace("{rows}", &rows.to_string())
            .replace("{ends}", &what.ends_in_micros().to_string());
        execute(namespace, "idem.db", fill).await
    }

    fn most(&self) -> u64 {
        1_000_000
    }
}
