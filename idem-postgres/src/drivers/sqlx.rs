//! sqlx.

use std::error::Error as StdError;

use async_trait::async_trait;
use idem_core::{Error, Result};
use idem_sql::executor::{self, BoundStatement, Executor};
use sqlx::postgres::{PgConnection, PgDatabaseError};
use sqlx::{Error as SqlxError, PgTransaction};

use super::BoxExecutor;
use super::connected::Connected;
use crate::error::{Access, classify};
use crate::query::PgExecutor;
use crate::sqlstate::Answer;
use crate::transaction::Transaction;

impl Connected for PgTransaction<'_> {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        Ok(Box::new(Sqlx(self)))
    }
}

impl Connected for Transaction {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        Ok(Box::new(Sqlx(self)))
    }
}

#[derive(Debug)]
struct Sqlx<'t>(&'t mut PgConnection);

#[async_trait]
impl Executor for Sqlx<'_> {
    type Error = Error;

    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<executor::Answer> {
        let answer = PgExecutor(self.0).run(statement).await;
        answer.map_err(|error| classify(error, Access::Write))
    }
}

pub(super) fn answer<'e>(error: &'e (dyn StdError + 'static)) -> Option<Answer<'e>> {
    let SqlxError::Database(database) = error.downcast_ref()? else {
        return None;
    };
    let database = database.try_downcast_ref::<PgDatabaseError>();
    database.map(Answer::from)
}
