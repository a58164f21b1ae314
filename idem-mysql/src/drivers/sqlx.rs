//! sqlx.

use std::error::Error as StdError;

use idem_core::{Error, Result, async_trait};
use idem_sql::executor::{Answer, BoundStatement, Executor};
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError};
use sqlx::{Error as SqlxError, MySqlTransaction};

use super::BoxExecutor;
use super::connected::Connected;
use crate::Transaction;
use crate::error::{Access, classify};
use crate::executor::MySqlExecutor;

impl Connected for MySqlConnection {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        Ok(Box::new(Sqlx(self)))
    }
}

impl Connected for MySqlTransaction<'_> {
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
struct Sqlx<'t>(&'t mut MySqlConnection);

#[async_trait]
impl Executor for Sqlx<'_> {
    type Error = Error;

    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer> {
        let answer = MySqlExecutor(self.0).run(statement).await;
        answer.map_err(|error| classify(error, Access::Write))
    }
}

pub(super) fn number(error: &(dyn StdError + 'static)) -> Option<u16> {
    let database = error.downcast_ref::<SqlxError>()?.as_database_error()?;
    Some(database.try_downcast_ref::<MySqlDatabaseError>()?.number())
}
