//! sqlx on PostgreSQL, the driver that every other one is compared with.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BoxError, IdempotencyStore, Policy};
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idem_postgres::sqlx::{AssertSqlSafe, PgTransaction, Row, raw_sql};
use idem_postgres::{Isolation, PostgresStore, Transactions, is_transaction_retryable};

use super::{
    Caller, Calls, Engine, EngineIn, Level, Open, Shop, Work, in_transaction, sqlx_driver, url_of,
};
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

    const TRAPS: &'static [(&'static str, i64, i64)] = &[("ROLLBACK", 0, 1)];

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
            transactions: Transactions::new(&store).with_pool(pool),
            store,
        }))
    }
}

#[derive(Debug)]
struct Application {
    store: PostgresStore,
    payments: String,
    transactions: Transactions,
}

impl Application {
    fn transactions(&self, level: Level) -> Transactions {
        let isolation = match level {
            Level::Default => Isolation::ReadCommitted,
            Level::Serializable => Isolation::Serializable,
        };
        self.transactions.clone().with_isolation(isolation)
    }
}

#[async_trait]
impl Caller for Application {
    async fn transact(&self, level: Level, work: &mut dyn Work) -> Result<(), BoxError> {
        let mut transaction = self.transactions(level).attempts().begin().await?;
        let mut open = Open {
            store: &self.store,
            transaction: &mut transaction,
            payments: &self.payments,
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
        level: Level,
    ) -> Option<Arc<dyn Engine>> {
        let engine = EngineIn::new(
            &self.store,
            store,
            policy,
            self.transactions(level),
            &self.payments,
        );
        Some(Arc::new(engine))
    }

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}

in_transaction!(PostgresStore, PgTransaction<'static>);
sqlx_driver!(PgTransaction<'static>);
