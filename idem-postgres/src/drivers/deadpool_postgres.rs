//! deadpool-postgres: tokio-postgres, with a cache of prepared statements for each connection.

use std::fmt;

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use idem_core::{Error, Result};
use idem_sql::executor::{self, BoundStatement, Executor};

use super::BoxExecutor;
use super::connected::Connected;
use super::tokio_postgres::{answer, answered, bound, classify};
use crate::sqlstate::{Cure, meaning};

impl Connected for Transaction<'_> {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        Ok(Box::new(Deadpool(self)))
    }
}

struct Deadpool<'t, 'c>(&'t Transaction<'c>);

#[async_trait]
impl Executor for Deadpool<'_, '_> {
    type Error = Error;

    /// Forgets a statement that was prepared before the table changed: the repeated transaction
    /// prepares it anew.
    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<executor::Answer> {
        let bound = bound(statement);
        let types: Vec<_> = bound.iter().map(|value| value.pg_type()).collect();
        let values: Vec<_> = bound.iter().map(|value| value.as_sql()).collect();
        let rows = if statement.is_persistent {
            match self.0.prepare_typed_cached(&statement.text, &types).await {
                Ok(prepared) => self.0.query(&prepared, &values).await,
                Err(error) => Err(error),
            }
        } else {
            let typed: Vec<_> = values.into_iter().zip(types.iter().cloned()).collect();
            self.0.query_typed(&statement.text, &typed).await
        };
        if let Err(error) = &rows
            && let Some(answer) = answer(error)
            && meaning(answer).1 == Cure::Prepare
        {
            drop(self.0.statement_cache.remove(&statement.text, &types));
        }
        rows.map(answered).map_err(classify)
    }
}

impl fmt::Debug for Deadpool<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadpool").finish_non_exhaustive()
    }
}
