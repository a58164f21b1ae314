//! Transactions of SeaORM, which has sqlx underneath.

use std::error::Error as StdError;
use std::fmt;

use async_trait::async_trait;
use idem_core::backend::{Access, Meaning};
use idem_core::{Effect, Error, ErrorKind, Result};
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryResult, RuntimeErr, Statement,
    Value as SeaValue,
};
use sqlx::Error as SqlxError;

use crate::cells::Cells;
use crate::executor::{Answer, BoundStatement, Executor};
use crate::parameters::Value;
use crate::sqlx::HeldRow;

/// A database, and how SeaORM talks to it.
#[derive(Debug)]
pub struct Dialect<R> {
    /// The database, as SeaORM names it.
    pub backend: DbBackend,
    /// Its name, for messages.
    pub name: &'static str,
    /// Whether texts are bound as bytes, because the columns hold bytes.
    pub texts_are_bytes: bool,
    /// Returns whether this statement answers with rows, not with their count: SeaORM returns one of
    /// both. The flag says that it has no values and is not to be prepared.
    pub returns_rows: fn(&str, bool) -> bool,
    /// Returns sqlx's row.
    pub row: fn(&QueryResult) -> Option<&R>,
    /// Returns what an error of sqlx means.
    pub meaning: fn(&SqlxError) -> Meaning,
}

/// A transaction of SeaORM on a database of this dialect. Its errors are those of a write.
pub struct SeaOrm<'t, R: 'static> {
    transaction: &'t DatabaseTransaction,
    dialect: &'static Dialect<R>,
}

impl<'t, R> SeaOrm<'t, R> {
    /// Takes a transaction.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when it is one of another database.
    pub fn new(transaction: &'t DatabaseTransaction, dialect: &'static Dialect<R>) -> Result<Self> {
        if transaction.get_database_backend() != dialect.backend {
            let message = format!("the transaction is not one of {}", dialect.name);
            return Err(Error::new(ErrorKind::Misconfigured, Effect::None, message));
        }
        Ok(Self {
            transaction,
            dialect,
        })
    }
}

#[async_trait]
impl<R> Executor for SeaOrm<'_, R>
where
    HeldRow<QueryResult, R>: Cells + 'static,
{
    type Error = Error;

    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer> {
        let Self {
            transaction,
            dialect,
        } = self;
        let classify = |error| classify(error, dialect.meaning);
        let text = &*statement.text;
        let values = statement.values.iter().map(|value| dialect.bound(value));
        let values: Vec<_> = values.collect::<Result<_>>()?;
        let is_text = values.is_empty() && !statement.is_persistent;
        let bound = Statement::from_sql_and_values(dialect.backend, text, values);
        if (dialect.returns_rows)(text, is_text) {
            let rows = transaction.query_all_raw(bound).await.map_err(classify)?;
            let held = |row| Box::new(HeldRow::new(row, dialect.row)) as _;
            return Ok(Answer {
                rows: rows.into_iter().map(held).collect(),
                ..Answer::default()
            });
        }
        let done = match is_text {
            true => transaction.execute_unprepared(text).await,
            false => transaction.execute_raw(bound).await,
        };
        let done = done.map_err(classify)?;
        Ok(Answer {
            rows: Vec::new(),
            affected: done.rows_affected(),
            insert_id: match dialect.backend {
                DbBackend::MySql => done.last_insert_id(),
                _ => 0,
            },
        })
    }
}

impl<R> fmt::Debug for SeaOrm<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeaOrm").finish_non_exhaustive()
    }
}

impl<R> Dialect<R> {
    fn bound(&self, value: &Value<'_>) -> Result<SeaValue> {
        let text = |text: Option<&str>| match self.texts_are_bytes {
            true => SeaValue::Bytes(text.map(|text| text.as_bytes().to_vec())),
            false => SeaValue::String(text.map(ToOwned::to_owned)),
        };
        Ok(match value {
            Value::Text(value) => text(Some(value)),
            Value::OptionalText(value) => text(*value),
            Value::Bytes(bytes) => SeaValue::Bytes(Some(bytes.to_vec())),
            Value::Number(number) => SeaValue::BigInt(Some(*number)),
            Value::OptionalNumber(number) => SeaValue::BigInt(*number),
            Value::Flag(flag) => SeaValue::Bool(Some(*flag)),
            Value::Count(count) => SeaValue::Int(Some(*count)),
            Value::Array(_) => {
                let message = "a statement in a transaction has no arrays";
                return Err(Error::invalid_input(message));
            }
        })
    }
}

/// Converts an error of a statement that writes.
fn classify(error: DbErr, meaning: fn(&SqlxError) -> Meaning) -> Error {
    let other = (
        ErrorKind::Other,
        Effect::Unknown,
        "SeaORM failed; see the source",
    );
    Access::Write.error(driver_error(&error).map_or(other, meaning), error)
}

/// Returns the error of sqlx in one of SeaORM.
#[must_use]
pub fn driver_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e SqlxError> {
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
        let meaning = |_: &SqlxError| (ErrorKind::Unavailable, Effect::Unknown, "lost");
        for wrap in [DbErr::Conn, DbErr::Exec, DbErr::Query] {
            let lost = SqlxError::Io(std::io::ErrorKind::ConnectionReset.into());
            let error = classify(wrap(RuntimeErr::SqlxError(Arc::new(lost))), meaning);
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert_eq!(error.effect(), Effect::Unknown);
        }
        let own = classify(DbErr::Custom("another".into()), meaning);
        assert_eq!(
            (own.kind(), own.effect()),
            (ErrorKind::Other, Effect::Unknown)
        );
    }
}
