//! [`Query`]: a statement with its values; [`PgExecutor`]: the connection that runs it.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::Result;
use idem_sql::executor::{Answer, BoundStatement, Executor};
use idem_sql::parameters::{Array, Value, Values};
use idem_sql::sqlx::answer;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::{Arguments, AssertSqlSafe};

use crate::error::cure;
use crate::sqlstate::Cure;
use crate::statements::{Statement, Text};

/// A statement with its values, for a connection of the store or a caller's transaction.
#[derive(Debug)]
pub(crate) struct Query<'q> {
    statement: &'q Statement,
    values: Vec<Value<'q>>,
}

impl Statement {
    /// Creates a query with the statement's values.
    pub(crate) fn with<'q>(&'q self, values: &'q Values<'_>) -> Result<Query<'q>> {
        let values = values.of(self.parameters())?;
        let statement = self;
        Ok(Query { statement, values })
    }

    /// Creates a query with the values of a batch's items, as arrays.
    pub(crate) fn with_all<'q>(&'q self, items: &'q [Values<'_>]) -> Result<Query<'q>> {
        let values = Values::arrays(items, self.parameters())?;
        let statement = self;
        Ok(Query { statement, values })
    }
}

impl<'q> Query<'q> {
    /// Completes a statement that commits by itself.
    pub(crate) fn alone(self, is_persistent: bool) -> BoundStatement<'q> {
        let text = self.statement.alone();
        bound(text, self.values, is_persistent)
    }

    /// Completes a statement in a caller's transaction, which waits that long for a lock.
    pub(crate) fn within(self, wait: &'q str, is_persistent: bool) -> BoundStatement<'q> {
        let text = self.statement.within();
        let mut statement = bound(text, self.values, is_persistent);
        if text.takes_wait {
            statement.values.push(Value::Text(wait));
        }
        statement
    }
}

fn bound<'q>(
    text: &'q Text,
    mut values: Vec<Value<'q>>,
    is_persistent: bool,
) -> BoundStatement<'q> {
    values.push(Value::Bytes(Cow::Borrowed(&text.mark)));
    BoundStatement {
        text: Arc::clone(&text.sql),
        values,
        is_persistent,
    }
}

/// A connection of the store's, or of a caller's transaction.
#[derive(Debug)]
pub(crate) struct PgExecutor<'c>(pub(crate) &'c mut PgConnection);

#[async_trait]
impl Executor for PgExecutor<'_> {
    type Error = sqlx::Error;

    /// Forgets the connection's statements after an error that says that they were prepared before
    /// the table changed, so that the statement can be sent again on this connection.
    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer, sqlx::Error> {
        let mut values = PgArguments::default();
        for value in &statement.values {
            bind(&mut values, value).map_err(sqlx::Error::Encode)?;
        }
        let query = sqlx::query_with(AssertSqlSafe(Arc::clone(&statement.text)), values);
        let query = query.persistent(statement.is_persistent);
        let answer = answer(&mut *self.0, query, |_, _| {}).await;
        if answer
            .as_ref()
            .is_err_and(|error| cure(error) == Cure::Prepare)
        {
            // The caller gets the first error.
            let _ = sqlx::Connection::clear_cached_statements(self.0).await;
        }
        answer
    }
}

fn bind(values: &mut PgArguments, value: &Value<'_>) -> Result<(), BoxDynError> {
    match value {
        Value::Text(text) => values.add(*text),
        Value::OptionalText(text) => values.add(*text),
        Value::Bytes(bytes) => values.add(&**bytes),
        Value::Number(number) => values.add(*number),
        Value::OptionalNumber(number) => values.add(*number),
        Value::Flag(flag) => values.add(*flag),
        Value::Count(count) => values.add(*count),
        Value::Array(Array::Texts(texts)) => values.add(texts),
        Value::Array(Array::Bytes(bytes)) => values.add(bytes),
        Value::Array(Array::Numbers(numbers)) => values.add(numbers),
        Value::Array(Array::Flags(flags)) => values.add(flags),
    }
}
