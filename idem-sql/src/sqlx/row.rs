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

fn read<'r, R, T>(row: &'r R, index: usize) -> Result<Option<T>>
where
    R: Row,
    usize: ColumnIndex<R>,
    T: Decode<'r, R::Database> + Type<R::Database>,
{
    let value = row.try_get_unchecked(index);
    value.map_err(|error| cells::unexpected(index).with_source(error))
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
        read(&self.0, index)
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        read(&self.0, index)
    }

    fn text(&self, index: usize) -> Result<Option<&str>> {
        read(&self.0, index)
    }
}

/// Shows no value: it may be a secret.
impl<R> fmt::Debug for SqlxRow<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlxRow").finish_non_exhaustive()
    }
}

/// A row of a driver of sqlx in the row of a library that is built on sqlx.
pub struct HeldRow<H, R> {
    holder: H,
    row: fn(&H) -> Option<&R>,
}

impl<H, R> HeldRow<H, R> {
    /// Creates the row that `row` finds in its holder.
    pub fn new(holder: H, row: fn(&H) -> Option<&R>) -> Self {
        Self { holder, row }
    }

    fn row(&self, index: usize) -> Result<&R> {
        (self.row)(&self.holder).ok_or_else(|| cells::unexpected(index))
    }
}

impl<H, R> Cells for HeldRow<H, R>
where
    H: Send + Sync,
    R: Row,
    usize: ColumnIndex<R>,
    i64: for<'r> Decode<'r, R::Database> + Type<R::Database>,
    for<'r> &'r [u8]: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> &'r str: Decode<'r, R::Database> + Type<R::Database>,
{
    fn width(&self) -> usize {
        self.row(0).map_or(0, Row::len)
    }

    fn number(&self, index: usize) -> Result<Option<i64>> {
        read(self.row(index)?, index)
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        read(self.row(index)?, index)
    }

    fn text(&self, index: usize) -> Result<Option<&str>> {
        read(self.row(index)?, index)
    }
}

/// Shows no value: it may be a secret.
impl<H, R> fmt::Debug for HeldRow<H, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldRow").finish_non_exhaustive()
    }
}
