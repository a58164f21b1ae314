//! [`Transaction`].

use std::ops::{Deref, DerefMut};

use idem_core::engine::transaction_ended;
use idem_core::{Effect, Result};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnection, PgTransactionManager};
use sqlx::{AssertSqlSafe, PgPool, Postgres, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;

use crate::error::{Access, classify};
use crate::store::BACKEND;

/// An open transaction on a connection of the pool.
///
/// It is a [`PgConnection`] for statements. Dropped without an end, it closes the connection, which
/// rolls back. sqlx 0.9.0 would hand back a connection whose statement was dropped half-way, or
/// whose begin failed after the server had opened the transaction.
#[derive(Debug)]
pub struct Transaction {
    connection: PoolConnection<Postgres>,
    is_open: bool,
}

impl Transaction {
    /// Begins in its own task, because a future of sqlx 0.9.0 that is dropped while it begins may
    /// leave the transaction open (<https://github.com/transact-rs/sqlx/issues/4385>).
    pub(crate) async fn begin(pool: PgPool, text: String) -> Result<Self> {
        let begun = tokio::spawn(async move {
            let mut transaction = Self {
                connection: pool.acquire().await?,
                is_open: true,
            };
            let text = AssertSqlSafe(text).into_sql_str();
            PgTransactionManager::begin(&mut transaction.connection, Some(text)).await?;
            Ok(transaction)
        });
        let begun = begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed));
        begun.map_err(|error| classify(error, Access::Read).at(BACKEND, "begin"))
    }

    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// `Contention` after a conflict; `Unavailable`, with an unknown effect if the answer was lost.
    /// `Misconfigured` when a savepoint of sqlx is still open: nothing is committed.
    ///
    /// # Cancellation
    ///
    /// Either all of it is committed or nothing.
    pub async fn commit(mut self) -> Result<()> {
        if PgTransactionManager::get_transaction_depth(&self.connection) != 1 {
            return Err(transaction_ended(Effect::None).at(BACKEND, "commit"));
        }
        let committed = PgTransactionManager::commit(&mut self.connection).await;
        self.is_open = committed.is_err();
        committed.map_err(|error| classify(error, Access::Write).at(BACKEND, "commit"))
    }

    /// Rolls the transaction back, and hands the connection to the pool, which a drop would not.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the connection is lost; the server rolls back then.
    ///
    /// # Cancellation
    ///
    /// The server rolls back.
    pub async fn rollback(mut self) -> Result<()> {
        let mut done = Ok(());
        while done.is_ok() && PgTransactionManager::get_transaction_depth(&self.connection) > 0 {
            done = PgTransactionManager::rollback(&mut self.connection).await;
        }
        self.is_open = done.is_err();
        done.map_err(|error| classify(error, Access::Read).at(BACKEND, "rollback"))
    }
}

impl Deref for Transaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.is_open {
            self.connection.close_on_drop();
        }
    }
}
