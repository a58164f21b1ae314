//! mysql_async.

use std::error::Error as StdError;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{
    IsolationLevel, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts, Transaction, TxOpts,
};
use idem_mysql::{MySqlStore, is_transaction_retryable};

use super::{Caller, Calls, Driver, Level, Open, Shop, Work, in_transaction, url_of};
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
            pool: Pool::new(options),
        }))
    }
}

struct Application {
    store: MySqlStore,
    payments: String,
    pool: Pool,
}

impl fmt::Debug for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Application").finish_non_exhaustive()
    }
}

#[async_trait]
impl Caller for Application {
    async fn transact(&self, level: Level, work: &mut dyn Work) -> Result<(), BoxError> {
        let isolation = match level {
            Level::Default => IsolationLevel::ReadCommitted,
            Level::Serializable => IsolationLevel::Serializable,
        };
        let mut options = TxOpts::default();
        options.with_isolation_level(isolation);
        let mut transaction = self.pool.start_transaction(options).await?;
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

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}

in_transaction!(MySqlStore, Transaction<'static>);

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
