//! mysql_async.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};
use idem_mysql::{
    Isolation, MySqlAsyncTransaction, MySqlAsyncTransactions, MySqlStore, is_transaction_retryable,
};

use super::{Application, Caller, Calls, Driver, Level, Shop, caller, url_of};
use crate::{Adapter, MySql};

/// An application on mysql_async.
#[derive(Debug, Clone, Copy)]
pub struct MySqlAsync;

#[async_trait]
impl Calls for MySqlAsync {
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
        let url = url.as_str().split('?').next().unwrap_or_default();
        let sizes = PoolConstraints::new(0, connections).ok_or("no connections")?;
        let options = OptsBuilder::from_opts(Opts::from_url(url)?)
            .client_found_rows(true)
            .prefer_socket(false)
            .pool_opts(PoolOpts::new().with_constraints(sizes));
        let store = base.store(namespace).await?;
        Ok(Arc::new(Application {
            payments: MySql::payments(namespace),
            connections: MySqlAsyncTransactions::on(&store, Pool::new(options)),
            store,
        }))
    }
}

fn at(transactions: &MySqlAsyncTransactions, level: Level) -> MySqlAsyncTransactions {
    let isolation = match level {
        Level::Default => Isolation::ReadCommitted,
        Level::Serializable => Isolation::Serializable,
    };
    transactions.clone().with_isolation(isolation)
}

caller!(MySqlStore, MySqlAsyncTransaction, is_transaction_retryable,
    |transactions: MySqlAsyncTransactions, level| transaction in {
    let mut transaction = at(transactions, level).attempts().begin().await?;
}, engine: at(transactions, level));

#[async_trait]
impl Driver for MySqlAsyncTransaction {
    async fn execute(&mut self, sql: &str) -> Result<(), BoxError> {
        Ok(self.query_drop(sql).await?)
    }

    async fn text(&mut self, sql: &str) -> Result<String, BoxError> {
        let text = self.query_first(sql).await?;
        Ok(text.ok_or("there is no row")?)
    }
}
