//! [`Transaction`].

use std::ops::{Deref, DerefMut};

use idem_core::engine::transaction_ended;
use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError, MySqlTransactionManager};
use sqlx::pool::PoolConnection;
use sqlx::{Executor, MySql, MySqlPool, SqlStr};
use sqlx_core::transaction::TransactionManager;

use crate::error::{Access, classify};
use crate::store::BACKEND;

/// Commits if the savepoint of the begin is still there. An error ends the text before `COMMIT`.
pub(crate) const COMMIT: &str =
    "RELEASE SAVEPOINT idem_begun; COMMIT; SET autocommit = @idem_autocommit";

pub(crate) const ROLLBACK: &str = "ROLLBACK; SET autocommit = @idem_autocommit";

/// ER_SP_DOES_NOT_EXIST, also for savepoints
/// (<https://dev.mysql.com/doc/refman/8.4/en/savepoint.html>).
pub(crate) const NO_SAVEPOINT: u16 = 1305;

/// An open transaction on a connection of the pool.
///
/// It is a [`MySqlConnection`] for statements. Dropped without a commit it closes the connection,
/// which rolls back: a connection whose statement was dropped half-way is unusable, and sqlx 0.9.0
/// would hand it back to the pool.
#[derive(Debug)]
pub struct Transaction {
    connection: PoolConnection<MySql>,
    is_open: bool,
}

impl Transaction {
    /// Begins in its own task, because a future of sqlx 0.9.0 that is dropped while it begins may
    /// leave the transaction open.
    pub(crate) async fn begin(pool: MySqlPool, statement: &'static str) -> Result<Self> {
        let begun = tokio::spawn(async move {
            let mut transaction = Self {
                connection: pool.acquire().await?,
                is_open: true,
            };
            let statement = SqlStr::from_static(statement);
            MySqlTransactionManager::begin(&mut transaction.connection, Some(statement)).await?;
            Ok(transaction)
        });
        let begun = begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed));
        begun.map_err(|error| failed(error, Access::Read, "begin"))
    }

    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// `Contention` when a Galera node (1213) or a replication group (3101) refuses it, `Unavailable`
    /// when the answer is lost, both with an unknown effect: the node may have lost the others while
    /// they received the commit. `Misconfigured` when the transaction has ended before, as by a
    /// statement that commits implicitly
    /// (<https://dev.mysql.com/doc/refman/8.4/en/implicit-commit.html>): its rows until then are
    /// committed, later ones are not.
    ///
    /// # Cancellation
    ///
    /// The commit goes on.
    pub async fn commit(mut self) -> Result<()> {
        let done = tokio::spawn(async move {
            let done = self.end(COMMIT).await;
            if done.as_ref().is_err_and(has_ended) {
                let _ = self.end(ROLLBACK).await;
            }
            done
        });
        let done = done.await.unwrap_or(Err(sqlx::Error::WorkerCrashed));
        done.map_err(|error| {
            if has_ended(&error) {
                let ended = transaction_ended(Effect::Unknown).with_source(error);
                return ended.at(BACKEND, "commit");
            }
            let error = failed(error, Access::Write, "commit");
            match error.kind() {
                ErrorKind::Contention => error.with_effect(Effect::Unknown),
                _ => error,
            }
        })
    }

    /// Rolls the transaction back, and keeps the connection for others, which dropping does not.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the connection is lost; the server rolls back then.
    ///
    /// # Cancellation
    ///
    /// The rollback goes on.
    pub async fn rollback(mut self) -> Result<()> {
        let done = tokio::spawn(async move { self.end(ROLLBACK).await });
        let done = done.await.unwrap_or(Err(sqlx::Error::WorkerCrashed));
        done.map_err(|error| failed(error, Access::Read, "rollback"))
    }

    async fn end(&mut self, statements: &'static str) -> Result<(), sqlx::Error> {
        let connection: &mut MySqlConnection = &mut self.connection;
        connection.execute(SqlStr::from_static(statements)).await?;
        if MySqlTransactionManager::get_transaction_depth(&self.connection) == 1 {
            // sqlx still counts the transaction. This ROLLBACK does nothing, and is sent together
            // with the ping of the pool.
            MySqlTransactionManager::start_rollback(&mut self.connection);
            self.is_open = false;
        }
        Ok(())
    }
}

fn has_ended(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    error.is_some_and(|error| error.number() == NO_SAVEPOINT)
}

fn failed(error: sqlx::Error, sent: Access, operation: &'static str) -> Error {
    classify(error, sent).at(BACKEND, operation)
}

impl Deref for Transaction {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        &self.connection
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
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
