//! [`WriteTransaction`]: a transaction of the store's own.

use idem_core::Result;
use idem_sqlx::Lent;
use sqlx::Sqlite;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteConnection;

use crate::config::Config;
use crate::error::{Sent, classify, is_transaction_retryable};
use crate::pools::{Pools, connection};
use crate::session::timed_out;

/// A transaction that takes the write lock at once: one that first reads cannot always become a writer
/// (SQLITE_BUSY_SNAPSHOT, <https://www.sqlite.org/isolation.html>).
pub(crate) const BEGIN: &str = "BEGIN IMMEDIATE";

/// A transaction of the store's own. Dropped before its commit it closes the connection, which rolls it back.
#[derive(Debug)]
pub(crate) enum WriteTransaction {
    /// On a connection that waited for the write lock.
    Shared(CloseUnlessDone),
    /// On one that found it free.
    Own(Lent<Sqlite>),
}

impl WriteTransaction {
    /// At once if the write lock is free, otherwise when it is.
    pub(crate) async fn begin(pools: &Pools, config: &Config) -> Result<Self> {
        let work = async {
            if let Some(begun) = Self::begin_on_own(pools).await {
                return Ok(begun);
            }
            let connection = pools.shared.acquire().await?;
            let mut guard = CloseUnlessDone::new(connection);
            sqlx::query(BEGIN).execute(&mut *guard.connection).await?;
            Ok(Self::Shared(guard))
        };
        match tokio::time::timeout(config.timeout(), work).await {
            Ok(begun) => begun.map_err(|error| classify(error, Sent::Harmless)),
            Err(_) => Err(timed_out(config, Sent::Harmless)),
        }
    }

    /// `None` when the write lock was not to be had, and when anything is wrong, which the shared pool then tells.
    async fn begin_on_own(pools: &Pools) -> Option<Self> {
        let mut tries = pools.tries();
        while tries.again().await {
            let mut lent = pools.lend_writer().await?;
            let begun = sqlx::query(BEGIN)
                .execute(connection(&mut lent).ok()?)
                .await;
            match begun {
                Ok(_) => return Some(Self::Own(lent)),
                Err(error) if is_transaction_retryable(&error) => lent.done(),
                Err(_) => return None,
            }
        }
        None
    }

    pub(crate) fn connection(&mut self) -> Result<&mut SqliteConnection> {
        match self {
            Self::Shared(guard) => Ok(&mut guard.connection),
            Self::Own(lent) => connection(lent).map_err(|error| classify(error, Sent::Harmless)),
        }
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        sqlx::query("COMMIT")
            .execute(self.connection()?)
            .await
            .map_err(|error| classify(error, Sent::Write))?;
        match self {
            Self::Shared(guard) => guard.done(),
            Self::Own(lent) => lent.done(),
        }
        Ok(())
    }
}

/// Closes the connection, and with it rolls back, what was begun on it and not finished.
#[derive(Debug)]
pub(crate) struct CloseUnlessDone {
    connection: PoolConnection<Sqlite>,
    done: bool,
}

impl CloseUnlessDone {
    fn new(connection: PoolConnection<Sqlite>) -> Self {
        Self {
            connection,
            done: false,
        }
    }

    /// What was begun is finished: the pool may have the connection back.
    fn done(mut self) {
        self.done = true;
    }
}

impl Drop for CloseUnlessDone {
    fn drop(&mut self) {
        if !self.done {
            self.connection.close_on_drop();
        }
    }
}
