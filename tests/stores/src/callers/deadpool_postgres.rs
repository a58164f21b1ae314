//! deadpool-postgres.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_postgres::deadpool_postgres::{Manager, Pool, Transaction};
use idem_postgres::tokio_postgres::{Config, IsolationLevel, NoTls};
use idem_postgres::{PostgresStore, is_transaction_retryable};

use super::{Application, Caller, Calls, Driver, Level, Shop, caller, url_of};
use crate::{Adapter, Postgres};

/// An application on deadpool-postgres.
#[derive(Debug, Clone, Copy)]
pub struct DeadpoolPostgres;

#[async_trait]
impl Calls for DeadpoolPostgres {
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
        Ok(Arc::new(Application {
            store: base.store(namespace).await?,
            payments: Postgres::payments(namespace),
            connections: Pool::builder(manager).max_size(connections).build()?,
        }))
    }
}

caller!(PostgresStore, Transaction<'_>, is_transaction_retryable,
    |pool: Pool, level| transaction in {
    let mut client = pool.get().await?;
    let begin = client.build_transaction();
    let mut transaction = match level {
        Level::Default => begin.start().await?,
        Level::Serializable => begin.isolation_level(IsolationLevel::Serializable).start().await?,
    };
});

#[async_trait]
impl Driver for Transaction<'_> {
    async fn execute(&mut self, sql: &str) -> Result<(), BoxError> {
        Ok(self.batch_execute(sql).await?)
    }

    async fn text(&mut self, sql: &str) -> Result<String, BoxError> {
        Ok(self.query_one(sql, &[]).await?.try_get(0)?)
    }
}
