//! sqlx on SQLite, the driver that every other one is compared with.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore, Policy};
use idem_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePoolOptions};
use idem_sqlite::sqlx::{AssertSqlSafe, Connection, Row, raw_sql};
use idem_sqlite::{SqliteStore, Transaction, Transactions, is_transaction_retryable};

use super::{
    Caller, Calls, Engine, EngineIn, Level, Open, Shop, Work, in_transaction, sqlx_driver,
};
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
            transactions: Transactions::new(&store).with_pool(pool),
            store,
        }))
    }
}

#[derive(Debug)]
struct Application {
    store: SqliteStore,
    transactions: Transactions,
}

#[async_trait]
impl Caller for Application {
    /// There is one level, which is serializable.
    async fn transact(&self, _: Level, work: &mut dyn Work) -> Result<(), BoxError> {
        let mut transaction = self.transactions.attempts().begin().await?;
        let mut open = Open {
            store: &self.store,
            transaction: &mut transaction,
            payments: "payments",
        };
        let done = work.run(&mut open).await;
        match done {
            Ok(()) => transaction.commit().await?,
            Err(_) => transaction.rollback().await?,
        }
        done
    }

    fn engine(
        &self,
        store: Option<Arc<dyn IdempotencyStore>>,
        policy: Policy,
        _: Level,
    ) -> Option<Arc<dyn Engine>> {
        let engine = EngineIn::new(
            &self.store,
            store,
            policy,
            self.transactions.clone(),
            "payments",
        );
        Some(Arc::new(engine))
    }

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}

in_transaction!(SqliteStore, Transaction);
sqlx_driver!(Transaction);
