//! [`Query`]: a statement with its values, which can be sent more than once.

use std::time::Duration;

use idem_sql::parameters::{Parameter, Value, Values};
use idem_sql::sqlx::Missing;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::{Arguments, Encode, SqlStr, Type};

use crate::statements::Statement;

/// A statement with its values.
#[derive(Debug)]
pub(crate) struct Query {
    statement: Statement,
    values: PgArguments,
    refused: Option<BoxDynError>,
}

/// A [`Query`] with all its values, ready to run alone or in a transaction.
#[derive(Debug)]
pub(crate) struct Ready {
    sql: SqlStr,
    values: PgArguments,
}

impl Statement {
    /// Creates a query of a batch, which takes its arrays.
    pub(crate) fn query(&self) -> Query {
        Query::new(self.clone())
    }

    /// Creates a query with the statement's values.
    pub(crate) fn with(&self, values: &Values<'_>) -> Query {
        let query = Query::new(self.clone());
        let bind = |query: Query, &parameter: &Parameter| match values.get(parameter) {
            Some(Value::Text(text)) => query.bind(*text),
            Some(Value::OptionalText(text)) => query.bind(*text),
            Some(Value::Bytes(bytes)) => query.bind(&**bytes),
            Some(Value::Number(number)) => query.bind(*number),
            Some(Value::OptionalNumber(number)) => query.bind(*number),
            Some(Value::Flag(flag)) => query.bind(*flag),
            None => query.bind(Missing(parameter)),
        };
        self.parameters().iter().fold(query, bind)
    }
}

impl Query {
    fn new(statement: Statement) -> Self {
        Self {
            statement,
            values: PgArguments::default(),
            refused: None,
        }
    }

    /// Binds the next value. A value that cannot be encoded fails when the statement is sent.
    pub(crate) fn bind<'v, T: Encode<'v, Postgres> + Type<Postgres>>(mut self, value: T) -> Self {
        if let Err(error) = self.values.add(value) {
            self.refused.get_or_insert(error);
        }
        self
    }

    /// Completes a statement that commits by itself.
    pub(crate) fn alone(self) -> Result<Ready, sqlx::Error> {
        let (sql, mark) = (self.statement.alone().sql(), self.statement.alone().mark);
        self.bind(&mark[..]).ready(sql)
    }

    /// Completes a statement in a caller's transaction, which waits up to `wait` for a lock.
    pub(crate) fn within(self, wait: Duration) -> Result<Ready, sqlx::Error> {
        let text = self.statement.within();
        let (sql, mark, takes_wait) = (text.sql(), text.mark, text.takes_wait);
        let query = self.bind(&mark[..]);
        match takes_wait {
            true => query.bind(format!("{}ms", wait.as_millis())).ready(sql),
            false => query.ready(sql),
        }
    }

    fn ready(self, sql: SqlStr) -> Result<Ready, sqlx::Error> {
        match self.refused {
            Some(error) => Err(sqlx::Error::Encode(error)),
            None => Ok(Ready {
                sql,
                values: self.values,
            }),
        }
    }
}

impl Ready {
    /// Makes the driver's query, to be sent now.
    pub(crate) fn query(&self) -> sqlx::query::Query<'static, Postgres, PgArguments> {
        sqlx::query_with(self.sql.clone(), self.values.clone())
    }
}
