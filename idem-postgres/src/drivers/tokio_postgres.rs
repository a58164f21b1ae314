//! tokio-postgres.
//!
//! The driver's connection is a task of its own, which reads every answer to its end. So a future
//! that is dropped leaves no half-read answer, and a transaction that is dropped sends its ROLLBACK
//! behind the statement that is under way.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use async_trait::async_trait;
use idem_core::backend::Meaning;
use idem_core::{BoxError, Effect, Error, ErrorKind, Result};
use idem_sql::cells::{Cells, unexpected};
use idem_sql::executor::{self, BoundStatement, Executor};
use idem_sql::parameters::{Array, Value};
use tokio_postgres::error::Severity;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Error as PgError, Row, Transaction};

use super::BoxExecutor;
use super::connected::Connected;
use crate::error::Access;
use crate::sqlstate::{Answer, meaning};

impl Connected for Transaction<'_> {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        Ok(Box::new(TokioPostgres(self)))
    }
}

struct TokioPostgres<'t, 'c>(&'t Transaction<'c>);

#[async_trait]
impl Executor for TokioPostgres<'_, '_> {
    type Error = Error;

    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<executor::Answer> {
        let bound = bound(statement);
        let typed: Vec<_> = bound.iter().map(Bound::typed).collect();
        let rows = self.0.query_typed(&statement.text, &typed).await;
        rows.map(answered).map_err(classify)
    }
}

impl fmt::Debug for TokioPostgres<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioPostgres").finish_non_exhaustive()
    }
}

pub(super) fn bound<'b>(statement: &'b BoundStatement<'_>) -> Vec<Bound<'b>> {
    statement.values.iter().map(Bound).collect()
}

pub(super) fn answered(rows: Vec<Row>) -> executor::Answer {
    let rows = rows.into_iter().map(|row| Box::new(PgRow(row)) as _);
    executor::Answer {
        rows: rows.collect(),
        ..executor::Answer::default()
    }
}

/// A value, which the driver sends in the form of its type.
#[derive(Debug)]
pub(super) struct Bound<'v>(&'v Value<'v>);

impl Bound<'_> {
    /// Returns the same type as sqlx declares.
    pub(super) fn pg_type(&self) -> Type {
        match self.0 {
            Value::Text(_) | Value::OptionalText(_) => Type::TEXT,
            Value::Bytes(_) => Type::BYTEA,
            Value::Number(_) | Value::OptionalNumber(_) => Type::INT8,
            Value::Flag(_) => Type::BOOL,
            Value::Count(_) => Type::INT4,
            Value::Array(Array::Texts(_)) => Type::TEXT_ARRAY,
            Value::Array(Array::Bytes(_)) => Type::BYTEA_ARRAY,
            Value::Array(Array::Numbers(_)) => Type::INT8_ARRAY,
            Value::Array(Array::Flags(_)) => Type::BOOL_ARRAY,
        }
    }

    pub(super) fn as_sql(&self) -> &(dyn ToSql + Sync) {
        self
    }

    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        (self.as_sql(), self.pg_type())
    }
}

impl ToSql for Bound<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match self.0 {
            Value::Text(text) => text.to_sql(kind, out),
            Value::OptionalText(text) => text.to_sql(kind, out),
            Value::Bytes(bytes) => (&**bytes).to_sql(kind, out),
            Value::Number(number) => number.to_sql(kind, out),
            Value::OptionalNumber(number) => number.to_sql(kind, out),
            Value::Flag(flag) => flag.to_sql(kind, out),
            Value::Count(count) => count.to_sql(kind, out),
            Value::Array(Array::Texts(texts)) => texts.to_sql(kind, out),
            Value::Array(Array::Bytes(bytes)) => bytes.to_sql(kind, out),
            Value::Array(Array::Numbers(numbers)) => numbers.to_sql(kind, out),
            Value::Array(Array::Flags(flags)) => flags.to_sql(kind, out),
        }
    }

    /// Accepts any, because [`pg_type`](Self::pg_type) was declared.
    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

struct PgRow(Row);

impl PgRow {
    fn read(&self, index: usize) -> Result<Option<Raw<'_>>> {
        let value = self.0.try_get(index);
        value.map_err(|error| unexpected(index).with_source(error))
    }
}

impl Cells for PgRow {
    fn width(&self) -> usize {
        self.0.len()
    }

    fn number(&self, index: usize) -> Result<Option<i64>> {
        let Some(raw) = self.read(index)? else {
            return Ok(None);
        };
        let number = raw.number().ok_or_else(|| unexpected(index));
        number.map(Some)
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        Ok(self.read(index)?.map(|raw| raw.bytes))
    }
}

/// Shows no value: it may be a secret.
impl fmt::Debug for PgRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgRow").finish_non_exhaustive()
    }
}

/// A value as the server sends it, in binary.
#[derive(Clone, Copy)]
struct Raw<'r> {
    bytes: &'r [u8],
    is_number: bool,
}

impl Raw<'_> {
    /// Reads a number of any width, or a condition. The server sends the first byte first.
    fn number(self) -> Option<i64> {
        if !self.is_number {
            return None;
        }
        match *self.bytes {
            [byte] => Some(i64::from(byte)),
            [a, b] => Some(i16::from_be_bytes([a, b]).into()),
            [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
            _ => self.bytes.try_into().ok().map(i64::from_be_bytes),
        }
    }
}

impl<'r> FromSql<'r> for Raw<'r> {
    fn from_sql(kind: &Type, bytes: &'r [u8]) -> Result<Self, BoxError> {
        let numbers = [Type::BOOL, Type::INT2, Type::INT4, Type::INT8];
        let is_number = numbers.contains(kind);
        Ok(Self { bytes, is_number })
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Converts an error of a statement that writes.
pub(super) fn classify(error: PgError) -> Error {
    let meaning = match answer(&error) {
        Some(answer) => meaning(answer).0,
        None => driver_meaning(&error),
    };
    Access::Write.error(meaning, error)
}

/// Returns the meaning of an error that the driver raised itself.
fn driver_meaning(error: &PgError) -> Meaning {
    let is_io = error
        .source()
        .is_some_and(|source| source.is::<io::Error>());
    if error.is_closed() || is_io {
        let message = "the connection to the server was lost";
        return (ErrorKind::Unavailable, Effect::Unknown, message);
    }
    let message = "the driver failed; see the source";
    (ErrorKind::Other, Effect::Unknown, message)
}

pub(super) fn answer<'e>(error: &'e (dyn StdError + 'static)) -> Option<Answer<'e>> {
    let error = error.downcast_ref::<PgError>()?.as_db_error()?;
    // Servers before 9.6, and poolers, send the severity only in the language of the messages.
    let goes_on = match error.parsed_severity() {
        Some(severity) => severity == Severity::Error,
        None => error.severity() == "ERROR",
    };
    Some(Answer {
        code: error.code().code(),
        message: error.message(),
        routine: error.routine(),
        goes_on,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &Type, bytes: &[u8]) -> Option<i64> {
        let raw = Raw::from_sql(kind, bytes).unwrap();
        raw.number()
    }

    #[test]
    fn numbers_are_read_as_the_server_sends_them() {
        assert_eq!(read(&Type::BOOL, &[1]), Some(1));
        assert_eq!(read(&Type::INT2, &(-2_i16).to_be_bytes()), Some(-2));
        assert_eq!(read(&Type::INT4, &256_i32.to_be_bytes()), Some(256));
        assert_eq!(read(&Type::INT8, &i64::MIN.to_be_bytes()), Some(i64::MIN));
        assert_eq!(read(&Type::INT8, &[1, 2, 3]), None);
        assert_eq!(read(&Type::TEXT, b"8 bytes."), None, "it is no number");
    }

    #[test]
    fn values_are_sent_in_the_form_of_their_type() {
        for (value, kind, sent) in [
            (Value::Text("a"), Type::TEXT, &b"a"[..]),
            (Value::OptionalText(Some("b")), Type::TEXT, b"b"),
            (Value::Bytes(vec![0, 255].into()), Type::BYTEA, &[0, 255]),
            (Value::Number(1), Type::INT8, &[0, 0, 0, 0, 0, 0, 0, 1]),
            (Value::Flag(true), Type::BOOL, &[1]),
            (Value::Count(2), Type::INT4, &[0, 0, 0, 2]),
        ] {
            let (bound, mut out) = (Bound(&value), BytesMut::new());
            assert_eq!(bound.pg_type(), kind);
            assert!(matches!(bound.to_sql(&kind, &mut out), Ok(IsNull::No)));
            assert_eq!(&out[..], sent);
        }
        for value in [Value::OptionalText(None), Value::OptionalNumber(None)] {
            let (bound, mut out) = (Bound(&value), BytesMut::new());
            assert!(matches!(
                bound.to_sql(&bound.pg_type(), &mut out),
                Ok(IsNull::Yes)
            ));
        }
    }
}
