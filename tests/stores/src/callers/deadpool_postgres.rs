//! deadpool-postgres.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_postgres::deadpool_postgres::{Manager, Pool};
use idem_postgres::tokio_postgres::{Config, NoTls};
use idem_postgres::{
    DeadpoolTransaction, DeadpoolTransactions, Isolation, PostgresStore, is_transaction_retryable,
};

use super::{Application, Caller, Calls, Driver, Level, Shop, caller, url_of};
use crate::{Adapter, Postgres};

/// An application on deadpool-postgres.
#[derive(Debug, Clone, Copy)]
pub struct DeadpoolPostgres;

#[async_trait]
impl Calls for DeadpoolPostgres {
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
        let manager = Manager::new(Config::from_str(url.as_str())?, NoTls);
        let pool = Pool::builder(manager).max_size(connections).build()?;
        let store = base.store(namespace).await?;
        Ok(Arc::new(Application {
            payments: Postgres::payments(namespace),
            connections: DeadpoolTransactions::on(&store, pool),
            store,
        }))
    }
}

fn at(transactions: &DeadpoolTransactions, level: Level) -> DeadpoolTransactions {
    let isolation = match level {
        Level::Default => Isolation::ReadCommitted,
        Level::Serializable => Isolation::Serializable,
    };
    transactions.clone().with_isolation(isolation)
}

caller!(PostgresStore, DeadpoolTransaction, is_transaction_retryable,
    |transactions: DeadpoolTransactions, level| transaction in {
    let mut transaction = at(transactions, level).attempts().begin().await?;
}, engine: at(transactions, level));

#[async_trait]
impl Driver for DeadpoolTransaction {
    async fn execute(&mut self, sql: &str) -> Result<(), BoxError> {
        Ok(self.batch_execute(sql).await?)
    }

    async fn text(&mut self, sql: &str) -> Result<String, BoxError> {
        Ok(self.query_one(sql, &[]).await?.try_get(0)?)
    }
}
