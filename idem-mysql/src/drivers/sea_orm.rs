//! SeaORM, which has sqlx underneath.

use std::error::Error as StdError;
use std::fmt;

use idem_core::{Effect, Error, ErrorKind, Result, async_trait};
use idem_sql::executor::{Answer, BoundStatement, Executor};
use idem_sql::parameters::Value;
use idem_sql::sqlx::HeldRow;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryResult, RuntimeErr, Statement,
    Value as SeaValue,
};
use sqlx::Error as SqlxError;

use super::BoxExecutor;
use super::connected::Connected;
use super::returns_rows;
use crate::error::{Access, meaning_of};

impl Connected for DatabaseTransaction {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        executor(self)
    }
}

impl Connected for &DatabaseTransaction {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        executor(self)
    }
}

fn executor(transaction: &DatabaseTransaction) -> Result<BoxExecutor<'_>> {
    if transaction.get_database_backend() != DbBackend::MySql {
        let message = "the transaction is not one of MySQL or MariaDB";
        return Err(Error::new(ErrorKind::Misconfigured, Effect::None, message));
    }
    Ok(Box::new(SeaOrm(transaction)))
}

struct SeaOrm<'t>(&'t DatabaseTransaction);

#[async_trait]
impl Executor for SeaOrm<'_> {
    type Error = Error;

    /// SeaORM returns the rows of a statement or their count, not both.
    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer> {
        let text = &*statement.text;
        let values = statement.values.iter().map(bound);
        let values: Vec<_> = values.collect::<Result<_>>()?;
        let is_text = values.is_empty() && !statement.is_persistent;
        let bound = Statement::from_sql_and_values(DbBackend::MySql, text, values);
        if returns_rows(text) {
            let rows = self.0.query_all_raw(bound).await.map_err(classify)?;
            let held = |row| Box::new(HeldRow::new(row, QueryResult::try_as_mysql_row)) as _;
            return Ok(Answer {
                rows: rows.into_iter().map(held).collect(),
                ..Answer::default()
            });
        }
        let done = match is_text {
            true => self.0.execute_unprepared(text).await,
            false => self.0.execute_raw(bound).await,
        };
        let done = done.map_err(classify)?;
        Ok(Answer {
            rows: Vec::new(),
            affected: done.rows_affected(),
            insert_id: done.last_insert_id(),
        })
    }
}

impl fmt::Debug for SeaOrm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeaOrm").finish_non_exhaustive()
    }
}

/// Binds texts as bytes, because the columns hold bytes.
fn bound(value: &Value<'_>) -> Result<SeaValue> {
    Ok(match value {
        Value::Text(text) => SeaValue::Bytes(Some(text.as_bytes().to_vec())),
        Value::OptionalText(text) => SeaValue::Bytes(text.map(|text| text.as_bytes().to_vec())),
        Value::Bytes(bytes) => SeaValue::Bytes(Some(bytes.to_vec())),
        Value::Number(number) => SeaValue::BigInt(Some(*number)),
        Value::OptionalNumber(number) => SeaValue::BigInt(*number),
        Value::Flag(flag) => SeaValue::Bool(Some(*flag)),
        Value::Count(count) => SeaValue::Int(Some(*count)),
        Value::Array(_) => {
            let message = "the server has no arrays";
            return Err(Error::invalid_input(message));
        }
    })
}

/// Converts an error of a statement that writes.
fn classify(error: DbErr) -> Error {
    let meaning = match driver_error(&error) {
        Some(driver) => meaning_of(driver),
        None => (
            ErrorKind::Other,
            Effect::Unknown,
            "SeaORM failed; see the source",
        ),
    };
    Access::Write.error(meaning, error)
}

/// Returns the error of sqlx in one of SeaORM.
pub(super) fn driver_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e SqlxError> {
    match error.downcast_ref()? {
        DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_error_means_what_sqlx_says() {
        let lost = || SqlxError::Io(std::io::ErrorKind::ConnectionReset.into());
        for wrap in [DbErr::Conn, DbErr::Exec, DbErr::Query] {
            let error = classify(wrap(RuntimeErr::SqlxError(Arc::new(lost()))));
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert_eq!(error.effect(), Effect::Unknown);
        }
        let own = classify(DbErr::Custom("another".into()));
        assert_eq!(
            (own.kind(), own.effect()),
            (ErrorKind::Other, Effect::Unknown)
        );
    }
}
