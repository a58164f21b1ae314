//! sqlx on MySQL and MariaDB, the driver that every other one is compared with.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use idem_mysql::sqlx::{AssertSqlSafe, Row, raw_sql};
use idem_mysql::{Isolation, MySqlStore, Transaction, Transactions, is_transaction_retryable};

use super::{Application, Caller, Calls, Level, Shop, caller, sqlx_driver, url_of};
use crate::{Adapter, MySql};

#[async_trait]
impl Shop for MySql {
    fn payments(namespace: &str) -> String {
        format!("`{namespace}`.payments")
    }

    fn lock_wait() -> Option<(&'static str, &'static str)> {
        let set = "SET SESSION innodb_lock_wait_timeout = 7";
        Some((set, "SELECT CAST(@@innodb_lock_wait_timeout AS CHAR)"))
    }

    const TRAPS: &'static [(&'static str, i64, i64)] = &[
        ("COMMIT", 1, 0),
        ("ROLLBACK", 0, 0),
        ("START TRANSACTION", 1, 0),
        ("ROLLBACK; SET autocommit = 0; START TRANSACTION", 0, 0),
        ("DROP TABLE IF EXISTS there_is_no_such_table", 1, 0),
    ];

    async fn open_shop(&self, namespace: &str) -> Result<(), BoxError> {
        let payments = Self::payments(namespace);
        let columns = "id varchar(100), total bigint";
        self.execute(format!("CREATE TABLE IF NOT EXISTS {payments} ({columns})"))
            .await
    }

    async fn paid(&self, namespace: &str, id: &str) -> Result<i64, BoxError> {
        let payments = Self::payments(namespace);
        let sql = format!("SELECT count(*) FROM {payments} WHERE id = '{id}'");
        let mut connection = self.connect().await?;
        let row = raw_sql(AssertSqlSafe(sql)).fetch_one(&mut connection);
        Ok(row.await?.try_get(0)?)
    }

    async fn totals(&self, namespace: &str) -> Result<(i64, i64), BoxError> {
        let payments = Self::payments(namespace);
        let sql = format!("SELECT count(*), COALESCE(max(total), 0) FROM {payments}");
        let mut connection = self.connect().await?;
        let row = raw_sql(AssertSqlSafe(sql)).fetch_one(&mut connection);
        let row = row.await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }
}

/// An application on sqlx.
#[derive(Debug, Clone, Copy)]
pub struct SqlxMySql;

#[async_trait]
impl Calls for SqlxMySql {
    const RUNS: bool = true;

    type Base = MySql;

    async fn open(
        &self,
        base: &MySql,
        namespace: &str,
        address: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError> {
        let url = url_of(base, address)?;
        let pool = MySqlPoolOptions::new()
            .max_connections(u32::try_from(connections)?)
            .connect_lazy_with(MySqlConnectOptions::from_str(url.as_str())?);
        let store = base.store(namespace).await?;
        Ok(Arc::new(Application {
            payments: MySql::payments(namespace),
            connections: Transactions::on(&store, pool),
            store,
        }))
    }
}

fn at(transactions: &Transactions, level: Level) -> Transactions {
    let isolation = match level {
        Level::Default => Isolation::ReadCommitted,
        Level::Serializable => Isolation::Serializable,
    };
    transactions.clone().with_isolation(isolation)
}

caller!(MySqlStore, Transaction, is_transaction_retryable,
    |transactions: Transactions, level| transaction in {
    let mut transaction = at(transactions, level).attempts().begin().await?;
}, engine: at(transactions, level));
sqlx_driver!(Transaction);
