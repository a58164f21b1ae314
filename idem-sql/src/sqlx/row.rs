//! [`SqlxRow`]: the cells of a row of sqlx; and the answers of its drivers.

use std::fmt;

use futures_util::TryStreamExt as _;
use idem_core::Result;
use sqlx::{ColumnIndex, Database, Decode, Either, Execute, Executor, Row, Type};

use crate::cells::{self, Cells};
use crate::executor::Answer;

/// Sends a query, and reads its answer to the end. `count` adds what the server says at the end of
/// a statement.
///
/// # Errors
///
/// The driver's.
pub async fn answer<'c, 'q, DB, E, Q>(
    connection: E,
    query: Q,
    count: impl Fn(&mut Answer, &DB::QueryResult) + Send,
) -> Result<Answer, sqlx::Error>
where
    DB: Database,
    E: Executor<'c, Database = DB>,
    Q: Execute<'q, DB> + 'q,
    'q: 'c,
    SqlxRow<DB::Row>: Cells + 'static,
{
    let mut answer = Answer::default();
    let mut steps = connection.fetch_many(query);
    while let Some(step) = steps.try_next().await? {
        match step {
            Either::Left(done) => count(&mut answer, &done),
            Either::Right(row) => answer.rows.push(Box::new(SqlxRow(row))),
        }
    }
    drop(steps);
    Ok(answer)
}

/// A row of a driver of sqlx. The description of its columns is not checked, because the statement
/// says what it returns.
pub struct SqlxRow<R>(pub R);

impl<R> SqlxRow<R> {
    fn read<'r, T>(&'r self, index: usize) -> Result<Option<T>>
    where
        R: Row,
        usize: ColumnIndex<R>,
        T: Decode<'r, R::Database> + Type<R::Database>,
    {
        let value = self.0.try_get_unchecked(index);
        value.map_err(|error| cells::unexpected(index).with_source(error))
    }
}

impl<R> Cells for SqlxRow<R>
where
    R: Row,
    usize: ColumnIndex<R>,
    i64: for<'r> Decode<'r, R::Database> + Type<R::Database>,
    for<'r> &'r [u8]: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> &'r str: Decode<'r, R::Database> + Type<R::Database>,
{
    fn width(&self) -> usize {
        self.0.len()
    }

    fn number(&self, index: usize) -> Result<Option<i64>> {
        self.read(index)
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        self.read(index)
    }

    fn text(&self, index: usize) -> Result<Option<&str>> {
        self.read(index)
    }
}

/// Shows no value: it may be a secret.
impl<R> fmt::Debug for SqlxRow<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlxRow").finish_non_exhaustive()
    }
}
