//! [`Session`]: runs statements on a connection of the store, or in a transaction.

use std::sync::Arc;
use std::time::Duration;

use duckdb::Connection;
use idem_core::backend::{LockedKeys, RetryPauses};
use idem_core::{ErrorKind, Result};
use idem_sql::cells::Row;
use tokio::time::Instant;

use crate::config::Config;
use crate::error::{Access, classify};
use crate::executor::{BoundStatement, run};
use crate::held::Name;
use crate::pool::DuckDbPool;
use crate::transaction::DuckDbTransaction;

/// Runs single statements, and several in one commit.
#[derive(Debug)]
pub(crate) enum Session<'s> {
    Store(&'s DuckDbPool, &'s Config),
    Transaction(&'s mut DuckDbTransaction),
}

impl Session<'_> {
    /// Returns whether each statement commits by itself.
    pub(crate) fn commits_each(&self) -> bool {
        matches!(self, Self::Store(..))
    }

    /// Returns whether another open transaction has written what the name says.
    pub(crate) fn is_held_elsewhere(&self, name: &Name) -> Result<bool> {
        match self {
            Self::Store(pool, _) => Ok(pool.held()?.is_held(name)),
            Self::Transaction(transaction) => transaction.is_held_elsewhere(name),
        }
    }

    /// Waits until no other open transaction holds the name, and holds it in a transaction.
    ///
    /// # Errors
    ///
    /// `Contention`, when one holds it for longer than the limit.
    pub(crate) async fn turn(&mut self, name: &Name, limit: Duration) -> Result<()> {
        let mut pauses = RetryPauses::new(limit);
        loop {
            let is_free = match self {
                Self::Store(pool, _) => !pool.held()?.is_held(name),
                Self::Transaction(transaction) => transaction.hold(name)?,
            };
            if is_free {
                return Ok(());
            }
            if !pauses.wait().await {
                return Err(LockedKeys::error());
            }
        }
    }

    /// Returns the row of a statement that reads one at most.
    pub(crate) async fn read(&mut self, statement: BoundStatement) -> Result<Option<Row>> {
        Ok(self.read_all(statement).await?.into_iter().next())
    }

    /// Returns all rows of a statement that reads.
    pub(crate) async fn read_all(&mut self, statement: BoundStatement) -> Result<Vec<Row>> {
        let work = move |connection: &Connection| run(connection, &statement);
        match self {
            Self::Store(pool, config) => {
                let until = (Instant::now() + config.timeout(), config.timeout());
                pool.run_until(until, Access::Read, work).await
            }
            Self::Transaction(transaction) => {
                let rows = transaction.with(work).await?;
                rows.map_err(|error| classify(error, Access::Read))
            }
        }
    }

    /// Returns the rows of a statement that writes.
    pub(crate) async fn write(&mut self, statement: BoundStatement) -> Result<Vec<Row>> {
        let rows = self.write_all(vec![statement]).await?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    /// Runs statements in one transaction, and returns the rows of each. Repeats all of it after a
    /// conflict, which had no effect; in a caller's transaction it is the caller's to repeat.
    pub(crate) async fn write_all(
        &mut self,
        statements: Vec<BoundStatement>,
    ) -> Result<Vec<Vec<Row>>> {
        let (pool, config) = match self {
            Self::Store(pool, config) => (pool, config),
            Self::Transaction(transaction) => {
                let rows = transaction.with(move |connection| run_all(connection, &statements));
                return rows.await?.map_err(|error| classify(error, Access::Write));
            }
        };
        let statements: Arc<[_]> = statements.into();
        let until = (Instant::now() + config.timeout(), config.timeout());
        let mut pauses = RetryPauses::new(config.retry_timeout().min(config.timeout()));
        loop {
            let again = Arc::clone(&statements);
            let work = move |connection: &Connection| in_one_commit(connection, &again);
            match pool.run_until(until, Access::Write, work).await {
                Err(error) if error.kind() == ErrorKind::Contention && pauses.wait().await => {}
                ran => return ran,
            }
        }
    }
}

fn run_all(
    connection: &Connection,
    statements: &[BoundStatement],
) -> Result<Vec<Vec<Row>>, duckdb::Error> {
    let rows = statements
        .iter()
        .map(|statement| run(connection, statement));
    rows.collect()
}

/// A statement alone commits by itself. After an error the connection is closed, which rolls back.
fn in_one_commit(
    connection: &Connection,
    statements: &[BoundStatement],
) -> Result<Vec<Vec<Row>>, duckdb::Error> {
    if statements.len() == 1 {
        return run_all(connection, statements);
    }
    connection.execute_batch("BEGIN TRANSACTION")?;
    let rows = run_all(connection, statements)?;
    connection.execute_batch("COMMIT")?;
    Ok(rows)
}
