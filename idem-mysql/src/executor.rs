//! [`MySqlExecutor`]: the connection that a statement runs on.

use std::sync::Arc;

use idem_core::async_trait;
use idem_sql::executor::{Answer, BoundStatement, Executor};
use idem_sql::parameters::Value;
use idem_sql::sqlx::answer;
use sqlx::error::BoxDynError;
use sqlx::mysql::{MySqlArguments, MySqlConnection, MySqlQueryResult};
use sqlx::{Arguments, AssertSqlSafe};

/// A connection of the store's, or of a caller's transaction.
#[derive(Debug)]
pub(crate) struct MySqlExecutor<'c>(pub(crate) &'c mut MySqlConnection);

#[async_trait]
impl Executor for MySqlExecutor<'_> {
    type Error = sqlx::Error;

    /// A statement without values that is not persistent is sent as text, in one round trip.
    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer, sqlx::Error> {
        let text = AssertSqlSafe(Arc::clone(&statement.text));
        if statement.values.is_empty() && !statement.is_persistent {
            return answer(&mut *self.0, sqlx::raw_sql(text), count).await;
        }
        let mut values = MySqlArguments::default();
        for value in &statement.values {
            bind(&mut values, value).map_err(sqlx::Error::Encode)?;
        }
        let query = sqlx::query_with(text, values).persistent(statement.is_persistent);
        answer(&mut *self.0, query, count).await
    }
}

fn count(answer: &mut Answer, done: &MySqlQueryResult) {
    answer.affected += done.rows_affected();
    answer.insert_id = done.last_insert_id();
}

/// Binds texts as bytes, because the columns hold bytes, and a text would have the character set of
/// the session.
fn bind(values: &mut MySqlArguments, value: &Value<'_>) -> Result<(), BoxDynError> {
    match value {
        Value::Text(text) => values.add(text.as_bytes()),
        Value::OptionalText(text) => values.add(text.map(str::as_bytes)),
        Value::Bytes(bytes) => values.add(&**bytes),
        Value::Number(number) => values.add(*number),
        Value::OptionalNumber(number) => values.add(*number),
        Value::Flag(flag) => values.add(*flag),
        Value::Count(count) => values.add(*count),
        Value::Array(_) => Err("the server has no arrays".into()),
    }
}
