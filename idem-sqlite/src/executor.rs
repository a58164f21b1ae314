//! [`SqliteExecutor`]: the connection that a statement runs on.

use std::sync::Arc;

use idem_core::async_trait;
use idem_sql::executor::{Answer, BoundStatement, Executor};
use idem_sql::parameters::Value;
use idem_sql::sqlx::answer;
use sqlx::error::BoxDynError;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe};

/// A connection of the store's, or of a caller's transaction.
#[derive(Debug)]
pub(crate) struct SqliteExecutor<'c>(pub(crate) &'c mut SqliteConnection);

#[async_trait]
impl Executor for SqliteExecutor<'_> {
    type Error = sqlx::Error;

    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer, sqlx::Error> {
        let mut values = SqliteArguments::default();
        for value in &statement.values {
            bind(&mut values, value).map_err(sqlx::Error::Encode)?;
        }
        let query = sqlx::query_with(AssertSqlSafe(Arc::clone(&statement.text)), values);
        let query = query.persistent(statement.is_persistent);
        answer(&mut *self.0, query, |_, _| {}).await
    }
}

fn bind(values: &mut SqliteArguments, value: &Value<'_>) -> Result<(), BoxDynError> {
    match value {
        Value::Text(text) => values.add(*text),
        Value::OptionalText(text) => values.add(*text),
        Value::Bytes(bytes) => values.add(&**bytes),
        Value::Number(number) => values.add(*number),
        Value::OptionalNumber(number) => values.add(*number),
        Value::Flag(flag) => values.add(*flag),
        Value::Count(count) => values.add(*count),
        Value::Array(_) => Err("SQLite has no arrays".into()),
    }
}
