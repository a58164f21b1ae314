//! sqlx.

use std::error::Error as StdError;

use idem_core::{Error, Result, async_trait};
use idem_sql::executor::{Answer, BoundStatement, Executor};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Error as SqlxError, SqliteTransaction};

use super::BoxExecutor;
use super::connected::Connected;
use crate::Transaction;
use crate::error::{Access, classify};
use crate::executor::SqliteExecutor;

impl Connected for SqliteTransaction<'_> {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        Ok(on(self))
    }
}

impl Connected for Transaction {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        Ok(on(self))
    }
}

/// Returns the executor of a transaction on this connection.
pub(crate) fn on(connection: &mut SqliteConnection) -> BoxExecutor<'_> {
    Box::new(Sqlx(connection))
}

#[derive(Debug)]
struct Sqlx<'t>(&'t mut SqliteConnection);

#[async_trait]
impl Executor for Sqlx<'_> {
    type Error = Error;

    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer> {
        let answer = SqliteExecutor(self.0).run(statement).await;
        answer.map_err(|error| classify(error, Access::Write))
    }
}

/// Returns the code; -1, which is none, where the driver has none.
pub(super) fn code(error: &(dyn StdError + 'static)) -> Option<i32> {
    let database = error.downcast_ref::<SqlxError>()?.as_database_error()?;
    let code = database.code().and_then(|code| code.parse().ok());
    Some(code.unwrap_or(-1))
}
