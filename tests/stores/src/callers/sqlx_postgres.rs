//! sqlx on PostgreSQL, the driver that every other one is compared with.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idem_postgres::sqlx::{AssertSqlSafe, Row, raw_sql};
use idem_postgres::{
    Isolation, PostgresStore, Transaction, Transactions, is_transaction_retryable,
};

use super::{Application, Caller, Calls, Level, Shop, caller, sqlx_driver, url_of};
use crate::{Adapter, Postgres};

#[async_trait]
impl Shop for Postgres {
    fn payments(namespace: &str) -> String {
        format!("\"{namespace}\".payments")
    }

    fn lock_wait() -> Option<(&'static str, &'static str)> {
        let set = "SET LOCAL lock_timeout = '77ms'";
        Some((set, "SELECT current_setting('lock_timeout')"))
    }

    const TRAPS: &'static [(&'static str, i64, i64)] = &[("COMMIT", 1, 1), ("ROLLBACK", 0, 1)];

    async fn open_shop(&self, namespace: &str) -> Result<(), BoxError> {
        let payments = Self::payments(namespace);
        self.execute(format!(
            "SET LOCAL client_min_messages = warning;
            CREATE TABLE IF NOT EXISTS {payments} (id text, total bigint)"
        ))
        .await
    }

    async fn paid(&self, namespace: &str, id: &str) -> Result<i64, BoxError> {
        let payments = Self::payments(namespace);
        let sql = format!("SELECT count(*) FROM {payments} WHERE id = '{id}'");
        let mut connection = self.connect().await?;
        let row = raw_sql(AssertSqlSafe(sql)).fetch_one(&mut connection);
        Ok(row.await?.try_get_unchecked::<String, _>(0)?.parse()?)
    }

    async fn totals(&self, namespace: &str) -> Result<(i64, i64), BoxError> {
        let payments = Self::payments(namespace);
        let sql = format!("SELECT count(*), COALESCE(max(total), 0) FROM {payments}");
        let mut connection = self.connect().await?;
        let row = raw_sql(AssertSqlSafe(sql)).fetch_one(&mut connection);
        let row = row.await?;
        let number = |index| row.try_get_unchecked::<String, _>(index);
        Ok((number(0)?.parse()?, number(1)?.parse()?))
    }
}

/// An application on sqlx.
#[derive(Debug, Clone, Copy)]
pub struct SqlxPostgres;

#[async_trait]
impl Calls for SqlxPostgres {
    const RUNS: bool = true;

    type Base = Postgres;

    async fn open(
        &self,
        base: &Postgres,
        namespace: &str,
        address: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError> {
        let url = url_of(base, address)?;
        let pool = PgPoolOptions::new()
            .max_connections(u32::try_from(connections)?)
            .connect_lazy_with(PgConnectOptions::from_str(url.as_str())?);
        let store = base.store(namespace).await?;
        Ok(Arc::new(Application {
            payments: Postgres::payments(namespace),
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

caller!(PostgresStore, Transaction, is_transaction_retryable,
    |transactions: Transactions, level| transaction in {
    let mut transaction = at(transactions, level).attempts().begin().await?;
}, engine: at(transactions, level));
sqlx_driver!(Transaction);
