//! mysql_async.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{
    IsolationLevel, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts, Transaction, TxOpts,
};
use idem_mysql::{MySqlStore, is_transaction_retryable};

use super::{Application, Caller, Calls, Driver, Level, Shop, caller, url_of};
use crate::{Adapter, MySql};

/// An application on mysql_async.
#[derive(Debug, Clone, Copy)]
pub struct MySqlAsync;

#[async_trait]
impl Calls for MySqlAsync {
    type Base = MySql;

    async fn open(
        &self,
        base: &MySql,
        namespace: &str,
        address: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError> {
        let url = url_of(base, address)?;
        let url = url.as_str().split('?').next().unwrap_or_default();
        let sizes = PoolConstraints::new(0, connections).ok_or("no connections")?;
        let options = OptsBuilder::from_opts(Opts::from_url(url)?)
            .client_found_rows(true)
            .prefer_socket(false)
            .pool_opts(PoolOpts::new().with_constraints(sizes));
        Ok(Arc::new(Application {
            store: base.store(namespace).await?,
            payments: MySql::payments(namespace),
            connections: Pool::new(options),
        }))
    }
}

caller!(MySqlStore, Transaction<'static>, is_transaction_retryable,
    |pool: Pool, level| transaction in {
    let isolation = match level {
        Level::Default => IsolationLevel::ReadCommitted,
        Level::Serializable => IsolationLevel::Serializable,
    };
    let mut options = TxOpts::default();
    options.with_isolation_level(isolation);
    let mut transaction = pool.start_transaction(options).await?;
});

#[async_trait]
impl Driver for Transaction<'static> {
    async fn execute(&mut self, sql: &str) -> Result<(), BoxError> {
        Ok(self.query_drop(sql).await?)
    }

    async fn text(&mut self, sql: &str) -> Result<String, BoxError> {
        let text = self.query_first(sql).await?;
        Ok(text.ok_or("there is no row")?)
    }
}
