//! [`Session`]: runs statements on a connection of the store, or in a transaction.

use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::cells::Row;
use idem_sql::executor::BoundStatement;

use crate::config::Config;
use crate::drivers::BoxExecutor;
use crate::error::Access;
use crate::pools::Pools;
use crate::transaction::WriteTransaction;

/// Runs single statements.
#[derive(Debug)]
pub(crate) enum Session<'s> {
    Store(&'s Pools, &'s Config),
    Transaction(BoxExecutor<'s>),
}

impl Session<'_> {
    /// Begins a transaction of the store's own.
    pub(crate) async fn begin(&self) -> Result<WriteTransaction> {
        match self {
            Self::Store(pools, config) => WriteTransaction::begin(pools, config).await,
            Self::Transaction(_) => Err(Error::new(
                ErrorKind::Other,
                Effect::None,
                "a transaction is open already",
            )),
        }
    }

    /// Returns the row of a statement that reads one at most.
    pub(crate) async fn read(&mut self, statement: BoundStatement<'_>) -> Result<Option<Row>> {
        Ok(self.read_all(statement).await?.into_iter().next())
    }

    /// Returns all rows of a statement that reads.
    pub(crate) async fn read_all(&mut self, statement: BoundStatement<'_>) -> Result<Vec<Row>> {
        let (pools, config) = match self {
            Self::Store(pools, config) => (pools, config),
            Self::Transaction(executor) => {
                let answer = executor.run(&statement).await;
                let answer = answer.map_err(|error| error.with_effect(Effect::None));
                return Ok(answer?.rows);
            }
        };
        match tokio::time::timeout(config.timeout(), pools.read(&statement)).await {
            Ok(result) => result,
            Err(_) => Err(Access::Read.timed_out(config.timeout())),
        }
    }

    /// Returns the rows of a statement that writes, which are few.
    pub(crate) async fn write(&mut self, statement: BoundStatement<'_>) -> Result<Vec<Row>> {
        let (pools, config) = match self {
            Self::Store(pools, config) => (pools, config),
            Self::Transaction(executor) => {
                return Ok(executor.run(&statement).await?.rows);
            }
        };
        let mut under_way = Access::Read;
        let work = pools.write(&statement, &mut under_way);
        match tokio::time::timeout(config.timeout(), work).await {
            Ok(result) => result,
            Err(_) => Err(under_way.timed_out(config.timeout())),
        }
    }

    /// Runs the same if it need not wait for the write lock; `None`, without an effect, if it has
    /// to. In a transaction the statement is not tried.
    pub(crate) async fn write_at_once(
        &mut self,
        statement: BoundStatement<'_>,
    ) -> Result<Option<Vec<Row>>> {
        let Self::Store(pools, config) = self else {
            return Ok(None);
        };
        let mut under_way = Access::Read;
        let work = pools.write_at_once(&statement, &mut under_way);
        match tokio::time::timeout(config.timeout(), work).await {
            Ok(result) => result,
            Err(_) => Err(under_way.timed_out(config.timeout())),
        }
    }
}
