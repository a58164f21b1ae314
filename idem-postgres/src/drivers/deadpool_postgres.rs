//! deadpool-postgres: tokio-postgres, with a cache of prepared statements for each connection.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::task::{Context, Waker};

use async_trait::async_trait;
use deadpool_postgres::{ClientWrapper, Object, Pool, PoolError, StatementCache, Transaction};
use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::executor::{self, BoundStatement, Executor};
use tokio_postgres::Client;

use super::BoxExecutor;
use super::connected::Connected;
use super::tokio_postgres::{answer, answered, bound, classify};
use crate::sqlstate::{Cure, meaning};
use crate::store::BACKEND;
use crate::tx::Connections;

impl Connected for Transaction<'_> {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        let (client, cache) = (self.client(), &*self.statement_cache);
        Ok(Box::new(Deadpool { client, cache }))
    }
}

impl Connected for DeadpoolTransaction {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        let (client, cache) = (&**self.connection, &*self.connection.statement_cache);
        Ok(Box::new(Deadpool { client, cache }))
    }
}

/// An open transaction of [`DeadpoolTransactions`](crate::DeadpoolTransactions).
///
/// It is a [`ClientWrapper`] for statements; a savepoint is a statement. Dropped without an end, it
/// is rolled back before the connection does anything else.
pub struct DeadpoolTransaction {
    connection: Object,
    is_open: bool,
}

impl DeadpoolTransaction {
    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// As for [`Transaction::commit`](crate::Transaction::commit).
    ///
    /// # Cancellation
    ///
    /// Either all of it is committed or nothing.
    pub async fn commit(self) -> Result<()> {
        let committed = self.end("COMMIT").await;
        committed.map_err(|error| error.at(BACKEND, "commit"))
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the connection is lost; the server rolls back then.
    ///
    /// # Cancellation
    ///
    /// The rollback goes on.
    pub async fn rollback(self) -> Result<()> {
        let done = self.end("ROLLBACK").await;
        done.map_err(|error| error.at(BACKEND, "rollback"))
    }

    async fn end(mut self, text: &str) -> Result<()> {
        let ended = self.connection.batch_execute(text).await;
        self.is_open = ended.is_err();
        ended.map_err(classify)
    }
}

impl Connections for Pool {
    type Transaction = DeadpoolTransaction;

    async fn begin(&self, text: String) -> Result<DeadpoolTransaction> {
        let at = |error: Error| error.with_effect(Effect::None).at(BACKEND, "begin");
        let connection = self.get().await.map_err(|error| match error {
            PoolError::Backend(error) => at(classify(error)),
            error => {
                let message = "the pool has no connection; see the source";
                at(Error::new(ErrorKind::Unavailable, Effect::None, message).with_source(error))
            }
        })?;
        let transaction = DeadpoolTransaction {
            connection,
            is_open: true,
        };
        let begun = transaction.connection.batch_execute(&text).await;
        begun.map_err(|error| at(classify(error)))?;
        Ok(transaction)
    }

    async fn commit(transaction: DeadpoolTransaction) -> Result<()> {
        transaction.commit().await
    }

    async fn roll_back(transaction: DeadpoolTransaction) {
        let _ = transaction.rollback().await;
    }
}

impl Deref for DeadpoolTransaction {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.connection
    }
}

impl Drop for DeadpoolTransaction {
    /// One poll sends the rollback: the driver sends requests in the order of their first polls.
    fn drop(&mut self) {
        if self.is_open {
            let rollback = pin!(self.connection.batch_execute("ROLLBACK"));
            let _ = rollback.poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

impl fmt::Debug for DeadpoolTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadpoolTransaction")
            .finish_non_exhaustive()
    }
}

struct Deadpool<'t> {
    client: &'t Client,
    cache: &'t StatementCache,
}

#[async_trait]
impl Executor for Deadpool<'_> {
    type Error = Error;

    /// Forgets a statement that was prepared before the table changed: the repeated transaction
    /// prepares it anew.
    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<executor::Answer> {
        let Self { client, cache } = *self;
        let bound = bound(statement);
        let types: Vec<_> = bound.iter().map(|value| value.pg_type()).collect();
        let values: Vec<_> = bound.iter().map(|value| value.as_sql()).collect();
        let rows = if statement.is_persistent {
            match cache.prepare_typed(client, &statement.text, &types).await {
                Ok(prepared) => client.query(&prepared, &values).await,
                Err(error) => Err(error),
            }
        } else {
            let typed: Vec<_> = values.into_iter().zip(types.iter().cloned()).collect();
            client.query_typed(&statement.text, &typed).await
        };
        if let Err(error) = &rows
            && let Some(answer) = answer(error)
            && meaning(answer).1 == Cure::Prepare
        {
            drop(cache.remove(&statement.text, &types));
        }
        rows.map(answered).map_err(classify)
    }
}

impl fmt::Debug for Deadpool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadpool").finish_non_exhaustive()
    }
}
