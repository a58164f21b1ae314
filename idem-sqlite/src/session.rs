//! [`Session`]: runs statements on a connection of the store, or in a transaction.

use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::config::Config;
use crate::error::{Access, classify};
use crate::pools::Pools;
use crate::statements::Query;
use crate::transaction::WriteTransaction;

/// Runs single statements.
#[derive(Debug)]
pub(crate) enum Session<'s> {
    Store(&'s Pools, &'s Config),
    Transaction(&'s mut SqliteConnection),
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
    pub(crate) async fn read(&mut self, query: Query<'_>) -> Result<Option<SqliteRow>> {
        let (pools, config) = match self {
            Self::Store(pools, config) => (pools, config),
            Self::Transaction(connection) => {
                let row = query.fetch_optional(&mut **connection).await;
                return row.map_err(|error| classify(error, Access::Read));
            }
        };
        match tokio::time::timeout(config.timeout(), pools.read(query)).await {
            Ok(result) => result,
            Err(_) => Err(Access::Read.timed_out(config.timeout())),
        }
    }

    /// Returns the rows of a statement that writes, which are few.
    pub(crate) async fn write(&mut self, query: Query<'_>) -> Result<Vec<SqliteRow>> {
        let (pools, config) = match self {
            Self::Store(pools, config) => (pools, config),
            Self::Transaction(connection) => {
                let rows = query.fetch_all(&mut **connection).await;
                return rows.map_err(|error| classify(error, Access::Write));
            }
        };
        let mut under_way = Access::Read;
        let work = pools.write(query, &mut under_way);
        match tokio::time::timeout(config.timeout(), work).await {
            Ok(result) => result,
            Err(_) => Err(under_way.timed_out(config.timeout())),
        }
    }

    /// Runs the same if it need not wait for the write lock; `None`, without an effect, if it has
    /// to. In a transaction the statement is not tried.
    pub(crate) async fn write_at_once(
        &mut self,
        query: Query<'_>,
    ) -> Result<Option<Vec<SqliteRow>>> {
        let Self::Store(pools, config) = self else {
            return Ok(None);
        };
        let mut under_way = Access::Read;
        let work = pools.write_at_once(query, &mut under_way);
        match tokio::time::timeout(config.timeout(), work).await {
            Ok(result) => result,
            Err(_) => Err(under_way.timed_out(config.timeout())),
        }
    }
}
