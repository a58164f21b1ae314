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
    if transaction.get_database_backend() != DbBackend::Sqlite {
        let message = "the transaction is not one of SQLite";
        return Err(Error::new(ErrorKind::Misconfigured, Effect::None, message));
    }
    Ok(Box::new(SeaOrm(transaction)))
}

struct SeaOrm<'t>(&'t DatabaseTransaction);

#[async_trait]
impl Executor for SeaOrm<'_> {
    type Error = Error;

    /// SeaORM prepares every statement with values, and sqlx keeps it prepared.
    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer> {
        let text = &*statement.text;
        let values = statement.values.iter().map(bound);
        let values: Vec<_> = values.collect::<Result<_>>()?;
        let bound = Statement::from_sql_and_values(DbBackend::Sqlite, text, values);
        let rows = self.0.query_all_raw(bound).await.map_err(classify)?;
        let held = |row| Box::new(HeldRow::new(row, QueryResult::try_as_sqlite_row)) as _;
        Ok(Answer {
            rows: rows.into_iter().map(held).collect(),
            ..Answer::default()
        })
    }
}

impl fmt::Debug for SeaOrm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeaOrm").finish_non_exhaustive()
    }
}

fn bound(value: &Value<'_>) -> Result<SeaValue> {
    Ok(match value {
        Value::Text(text) => SeaValue::String(Some((*text).to_owned())),
        Value::OptionalText(text) => SeaValue::String(text.map(ToOwned::to_owned)),
        Value::Bytes(bytes) => SeaValue::Bytes(Some(bytes.to_vec())),
        Value::Number(number) => SeaValue::BigInt(Some(*number)),
        Value::OptionalNumber(number) => SeaValue::BigInt(*number),
        Value::Flag(flag) => SeaValue::Bool(Some(*flag)),
        Value::Count(count) => SeaValue::Int(Some(*count)),
        Value::Array(_) => {
            let message = "SQLite has no arrays";
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
        let lost = || SqlxError::WorkerCrashed;
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
