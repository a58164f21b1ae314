//! sqlx on SQLite, the driver that every other one is compared with.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePoolOptions};
use idem_sqlite::sqlx::{AssertSqlSafe, Connection, Row, raw_sql};
use idem_sqlite::{SqliteStore, Transaction, Transactions, is_transaction_retryable};

use super::{Application, Caller, Calls, Shop, caller, sqlx_driver};
use crate::{Adapter, Sqlite};

fn options(folder: &str) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(Path::new(folder).join(Sqlite::FILE))
}

#[async_trait]
impl Shop for Sqlite {
    fn payments(_: &str) -> String {
        "payments".to_owned()
    }

    fn lock_wait() -> Option<(&'static str, &'static str)> {
        None
    }

    const TRAPS: &'static [(&'static str, i64, i64)] = &[
        ("COMMIT", 0, 0),
        ("ROLLBACK", 0, 0),
        ("ROLLBACK; BEGIN IMMEDIATE", 0, 0),
        ("INSERT OR ROLLBACK INTO unique_rows VALUES (1), (1)", 0, 0),
    ];

    async fn open_shop(&self, folder: &str) -> Result<(), BoxError> {
        let mut connection = SqliteConnection::connect_with(&options(folder)).await?;
        let create = "CREATE TABLE IF NOT EXISTS payments (id TEXT, total INTEGER);
            CREATE TABLE IF NOT EXISTS unique_rows (id INTEGER PRIMARY KEY)";
        raw_sql(create).execute(&mut connection).await?;
        Ok(connection.close().await?)
    }

    async fn paid(&self, folder: &str, id: &str) -> Result<i64, BoxError> {
        let mut connection = SqliteConnection::connect_with(&options(folder)).await?;
        let sql = format!("SELECT count(*) FROM payments WHERE id = '{id}'");
        let row = raw_sql(AssertSqlSafe(sql)).fetch_one(&mut connection);
        let paid = row.await?.try_get(0)?;
        connection.close().await?;
        Ok(paid)
    }

    async fn totals(&self, folder: &str) -> Result<(i64, i64), BoxError> {
        let mut connection = SqliteConnection::connect_with(&options(folder)).await?;
        let sql = "SELECT count(*), COALESCE(max(total), 0) FROM payments";
        let row = raw_sql(sql).fetch_one(&mut connection).await?;
        let totals = (row.try_get(0)?, row.try_get(1)?);
        connection.close().await?;
        Ok(totals)
    }
}

/// An application on sqlx.
#[derive(Debug, Clone, Copy)]
pub struct SqlxSqlite;

#[async_trait]
impl Calls for SqlxSqlite {
    const RUNS: bool = true;

    type Base = Sqlite;

    async fn open(
        &self,
        base: &Sqlite,
        folder: &str,
        _: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError> {
        let pool = SqlitePoolOptions::new()
            .max_connections(u32::try_from(connections)?)
            .connect_lazy_with(options(folder));
        let store = base.store(folder).await?;
        Ok(Arc::new(Application {
            payments: Self::Base::payments(folder),
            connections: Transactions::on(&store, pool),
            store,
        }))
    }
}

// There is one level, which is serializable.
caller!(SqliteStore, Transaction, is_transaction_retryable,
    |transactions: Transactions, _level| transaction in {
    let mut transaction = transactions.attempts().begin().await?;
}, engine: transactions.clone());
sqlx_driver!(Transaction);
