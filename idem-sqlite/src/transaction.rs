//! [`WriteTransaction`]: a transaction of the store's own.

use idem_core::Result;
use idem_sql::sqlx::{CloseUnlessDone, ConnectionGuard};
use sqlx::Sqlite;
use sqlx::sqlite::SqliteConnection;
use tokio::time::timeout;

use crate::config::Config;
use crate::error::{Access, classify, is_transaction_retryable};
use crate::file::DatabaseFile;
use crate::pools::{Pools, connection};
use crate::wait::{Hasty, Wait};

/// Takes the write lock at once: a transaction that reads first cannot always become a writer
/// (SQLITE_BUSY_SNAPSHOT, <https://www.sqlite.org/isolation.html>).
pub(crate) const BEGIN: &str = "BEGIN IMMEDIATE";

/// A transaction of the store's own. Dropped before its commit, it closes the connection, which
/// rolls it back.
#[derive(Debug)]
pub(crate) enum WriteTransaction {
    /// On a connection of the caller's pool.
    Shared(CloseUnlessDone<Sqlite>, DatabaseFile),
    /// On one of the store's own.
    Own(ConnectionGuard<Sqlite>, DatabaseFile),
}

impl WriteTransaction {
    /// Begins at once if the write lock is free, otherwise when it is.
    pub(crate) async fn begin(pools: &Pools, config: &Config) -> Result<Self> {
        let work = async {
            if (pools.own().is_none() || pools.is_idle())
                && let Some(begun) = Self::try_begin(pools).await?
            {
                return Ok(begun);
            }
            let turn = match pools.gate.turn().await {
                Ok(turn) => turn,
                // The lock was taken a moment ago, and may be free by now.
                Err(error) => return Self::try_begin(pools).await?.ok_or(error),
            };
            // As in `Pools::write`.
            if pools.own().is_some()
                && pools.is_idle()
                && let Some(begun) = Self::try_begin(pools).await?
            {
                pools.gate.found_free();
                return Ok(begun);
            }
            let mut wait = Wait::begin(pools, turn).await?;
            loop {
                if let Some(begun) = Self::try_begin(pools).await? {
                    pools.gate.found_free();
                    return Ok(begun);
                }
                wait.again().await?;
            }
        };
        match timeout(config.timeout(), work).await {
            Ok(begun) => begun,
            Err(_) => Err(Access::Read.timed_out(config.timeout())),
        }
    }

    /// Tries to begin; `None` when the write lock is taken.
    async fn try_begin(pools: &Pools) -> Result<Option<Self>> {
        pools.file.before_write()?;
        match Self::begin_on(pools).await {
            Ok(begun) => Ok(Some(begun)),
            Err(error) if is_transaction_retryable(&error) => Ok(None),
            Err(error) => Err(classify(error, Access::Read)),
        }
    }

    async fn begin_on(pools: &Pools) -> Result<Self, sqlx::Error> {
        let Some(own) = pools.own() else {
            let mut hasty = Hasty::acquire(pools).await?;
            let begun = sqlx::query(BEGIN).execute(hasty.connection()).await;
            return match begun {
                Ok(_) => Ok(Self::Shared(hasty.restored().await?, pools.file.clone())),
                Err(error) => {
                    hasty.give_back().await;
                    Err(error)
                }
            };
        };
        let mut guard = own.writer.acquire().await?;
        match sqlx::query(BEGIN).execute(connection(&mut guard)?).await {
            Ok(_) => Ok(Self::Own(guard, pools.file.clone())),
            Err(error) => {
                if is_transaction_retryable(&error) {
                    guard.done();
                }
                Err(error)
            }
        }
    }

    pub(crate) fn connection(&mut self) -> Result<&mut SqliteConnection> {
        match self {
            Self::Shared(guard, _) => Ok(guard.connection()),
            Self::Own(guard, _) => connection(guard).map_err(|error| classify(error, Access::Read)),
        }
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        sqlx::query("COMMIT")
            .execute(self.connection()?)
            .await
            .map_err(|error| classify(error, Access::Write))?;
        let file = match self {
            Self::Shared(guard, file) => {
                guard.done();
                file
            }
            Self::Own(guard, file) => {
                guard.done();
                file
            }
        };
        file.after_write()
    }
}
