//! SQLite.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_conformance::Profile;
use idem_core::BoxError;
use idem_sqlite::Transactions;
use idem_stores::{Adapter as _, Sqlite, Suite};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, SqlitePool};
use tokio::sync::Mutex;

use super::sql::{PAYERS, POOL, fill, payments, statements};
use crate::backend::{PayBox, one_row};
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

    /// By hand, one connection takes all payments: more of them would only wait for its lock.
    async fn payments(&self, namespace: &str) -> Result<Vec<(&'static str, PayBox)>, BoxError> {
        let create = "CREATE TABLE IF NOT EXISTS paid (id TEXT PRIMARY KEY, cents INTEGER)";
        for file in [Sqlite::FILE, FILE, "alone.db"] {
            execute(namespace, file, create.to_owned()).await?;
        }
        let by_hand = async |file, is_keyed| {
            let pool = SqlitePoolOptions::new().max_connections(1);
            let pool = pool.connect_with(options(namespace, file)).await?;
            Ok::<PayBox, BoxError>(Arc::new(ByHand(pool, is_keyed)))
        };
        let store = Sqlite.store(namespace).await?;
        let payers: [PayBox; 3] = [
            Arc::new(ByRunIn {
                transactions: Transactions::new(&store),
                idempotency: idem_core::Idempotency::new(store),
            }),
            by_hand(FILE, true).await?,
            by_hand("alone.db", false).await?,
        ];
        Ok(std::iter::zip(PAYERS, payers).collect())
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

const PAY: &str = "INSERT INTO paid (id, cents) VALUES (?1, 1250)";

payments!(pool: SqlitePool, Transactions => pool.begin_with("BEGIN IMMEDIATE"));
statements!(Pooled(SqlitePool), self => &self.0);
statements!(Held(Mutex<SqliteConnection>), self => &mut *self.0.lock().await);

const FILL: &str = include_str!("fill/sqlite.sql");
