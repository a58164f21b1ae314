//! diesel-async, which has tokio-postgres underneath.
//!
//! An error of diesel has no SQLSTATE: it has a kind for some of them, and the server's message
//! (<https://docs.rs/diesel-async/0.9.2/src/diesel_async/pg/error_helper.rs.html>). The codes that
//! matter in a transaction are recognised by the kind, and by the message where the server's
//! `lc_messages` is English. In another language such an error is `Other`.

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use diesel::deserialize::{self, QueryableByName};

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::{DatabaseErrorKind, Error as DieselError, QueryResult};
use diesel::row::{Field, NamedRow};
use diesel::sql_types::{self, Untyped};
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, TransactionManager};
use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::cells::OwnedRow;
use idem_sql::executor::{self, BoundStatement, Executor};
use idem_sql::parameters::{Array, Value};

use super::BoxExecutor;
use super::connected::Connected;
use crate::error::Access;
use crate::sqlstate::{Answer, LOCK_NOT_AVAILABLE, meaning};

impl Connected for AsyncPgConnection {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        let status = AnsiTransactionManager::transaction_manager_status_mut(self);
        if !matches!(status.transaction_depth(), Ok(Some(_))) {
            let message = "no transaction is open on the connection; call this in the closure of `transaction`";
            return Err(Error::new(ErrorKind::Misconfigured, Effect::None, message));
        }
        Ok(Box::new(DieselAsync(Mutex::new(self))))
    }
}

/// The lock is never taken: it makes a shared reference harmless.
struct DieselAsync<'t>(Mutex<&'t mut AsyncPgConnection>);

#[async_trait]
impl Executor for DieselAsync<'_> {
    type Error = Error;

    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<executor::Answer> {
        let connection = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let rows = Sent(statement).load::<DieselRow>(&mut **connection).await;
        let rows = rows.map_err(classify)?;
        Ok(executor::Answer {
            rows: rows.into_iter().map(|row| Box::new(row.0) as _).collect(),
            ..executor::Answer::default()
        })
    }
}

impl fmt::Debug for DieselAsync<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DieselAsync").finish_non_exhaustive()
    }
}

/// A statement, as a query of diesel. Its cache of prepared statements has the text as the key.
struct Sent<'q>(&'q BoundStatement<'q>);

impl QueryFragment<Pg> for Sent<'_> {
    /// Diesel numbers the placeholders that it writes, so a value is sent as often as the text names
    /// it.
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if !self.0.is_persistent {
            out.unsafe_to_cache_prepared();
        }
        let mut parts = self.0.text.split('$');
        out.push_sql(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = part.split_at(digits);
            let index = number.parse::<usize>().ok();
            let value = index.and_then(|index| self.0.values.get(index.checked_sub(1)?));
            let value = value.ok_or_else(|| mistake("a placeholder has no value"))?;
            push(&mut out, value)?;
            out.push_sql(rest);
        }
        Ok(())
    }
}

fn push<'b>(out: &mut AstPass<'_, 'b, Pg>, value: &'b Value<'_>) -> QueryResult<()> {
    match value {
        Value::Text(text) => out.push_bind_param::<sql_types::Text, str>(text),
        Value::OptionalText(text) => {
            out.push_bind_param::<sql_types::Nullable<sql_types::Text>, _>(text)
        }
        Value::Bytes(bytes) => out.push_bind_param::<sql_types::Binary, [u8]>(bytes),
        Value::Number(number) => out.push_bind_param::<sql_types::BigInt, _>(number),
        Value::OptionalNumber(number) => {
            out.push_bind_param::<sql_types::Nullable<sql_types::BigInt>, _>(number)
        }
        Value::Flag(flag) => out.push_bind_param::<sql_types::Bool, _>(flag),
        Value::Count(count) => out.push_bind_param::<sql_types::Integer, _>(count),
        Value::Array(Array::Texts(_) | Array::Bytes(_) | Array::Numbers(_) | Array::Flags(_)) => {
            Err(mistake("a statement in a transaction has no arrays"))
        }
    }
}

fn mistake(message: &'static str) -> DieselError {
    DieselError::QueryBuilderError(message.into())
}

impl QueryId for Sent<'_> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Sent<'_> {
    type SqlType = Untyped;
}

/// The values of a row.
struct DieselRow(OwnedRow);

/// The types of `bool`, `bigint`, `smallint` and `integer`.
const NUMBERS: &[u32] = &[16, 20, 21, 23];

/// Reads a number of any width, or a condition. The server sends the first byte first.
fn number(bytes: &[u8]) -> Option<i64> {
    match *bytes {
        [byte] => Some(i64::from(byte)),
        [a, b] => Some(i16::from_be_bytes([a, b]).into()),
        [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
        _ => bytes.try_into().ok().map(i64::from_be_bytes),
    }
}

impl QueryableByName<Pg> for DieselRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        let cell = |index| {
            let field = diesel::row::Row::get(row, index)?;
            let value = field.value()?;
            let bytes = value.as_bytes().to_vec();
            let is_number = NUMBERS.contains(&value.get_oid().get());
            let number = if is_number { number(&bytes) } else { None };
            Some((bytes, number))
        };
        let cells = (0..row.field_count()).map(cell).collect();
        Ok(Self(OwnedRow(cells)))
    }
}

/// Converts an error of a statement that writes.
fn classify(error: DieselError) -> Error {
    let meaning = match &error {
        error if is_lost(error) => (
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the connection to the server was lost",
        ),
        DieselError::DeserializationError(_) => (
            ErrorKind::Corrupt,
            Effect::Unknown,
            "the server's answer makes no sense",
        ),
        DieselError::SerializationError(_) | DieselError::QueryBuilderError(_) => (
            ErrorKind::InvalidInput,
            Effect::None,
            "a value cannot be sent",
        ),
        error => match answer(error) {
            Some(answer) => meaning(answer).0,
            None => (
                ErrorKind::Other,
                Effect::Unknown,
                "the driver or the server refused the statement; see the source",
            ),
        },
    };
    Access::Write.error(meaning, error)
}

/// diesel-async reports every error of the driver that is none of the server's in this way.
fn is_lost(error: &DieselError) -> bool {
    use DatabaseErrorKind::{ClosedConnection, UnableToSendCommand};
    matches!(
        error,
        DieselError::DatabaseError(ClosedConnection | UnableToSendCommand, _)
    )
}

/// Returns the server's answer, as far as diesel tells it.
pub(super) fn answer<'e>(error: &'e (dyn StdError + 'static)) -> Option<Answer<'e>> {
    let error = error.downcast_ref::<DieselError>()?;
    let DieselError::DatabaseError(kind, information) = error else {
        return None;
    };
    if is_lost(error) {
        return None;
    }
    let message = information.message();
    Some(Answer {
        code: code_of(kind, message),
        message,
        // PostgreSQL always names it, and diesel does not tell.
        routine: Some(""),
        goes_on: !ENDS.iter().any(|end| message.starts_with(end)),
    })
}

/// Messages after which the server closes the connection.
const ENDS: &[&str] = &["terminating connection", "the database system is"];

/// Messages of the server, and their codes:
/// <https://github.com/postgres/postgres/tree/master/src/backend>.
const MESSAGES: &[(&str, &str)] = &[
    (
        "canceling statement due to lock timeout",
        LOCK_NOT_AVAILABLE,
    ),
    ("could not obtain lock on", LOCK_NOT_AVAILABLE),
    ("deadlock detected", "40P01"),
    ("could not serialize access", "40001"),
    ("current transaction is aborted", "25P02"),
    ("cannot execute", "25006"),
    ("canceling statement due to", "57014"),
    ("cached plan must not change result type", "0A000"),
    ("permission denied", "42501"),
    (
        "terminating connection due to administrator command",
        "57P01",
    ),
    (
        "terminating connection due to idle-in-transaction timeout",
        "25P03",
    ),
    (
        "terminating connection due to idle-session timeout",
        "57P05",
    ),
    ("the database system is", "57P03"),
];

/// Returns the code of a kind, or of a message in English; an empty one where neither says it.
fn code_of(kind: &DatabaseErrorKind, message: &str) -> &'static str {
    match kind {
        DatabaseErrorKind::SerializationFailure => "40001",
        DatabaseErrorKind::ReadOnlyTransaction => "25006",
        DatabaseErrorKind::UniqueViolation => "23505",
        DatabaseErrorKind::ForeignKeyViolation => "23503",
        DatabaseErrorKind::NotNullViolation => "23502",
        DatabaseErrorKind::CheckViolation => "23514",
        DatabaseErrorKind::ExclusionViolation => "23P01",
        _ if message.starts_with("relation ") && message.ends_with(" does not exist") => "42P01",
        _ => {
            let known = MESSAGES.iter().find(|known| message.starts_with(known.0));
            known.map_or("", |known| known.1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_transaction_retryable;

    fn error(kind: DatabaseErrorKind, message: &str) -> DieselError {
        DieselError::DatabaseError(kind, Box::new(message.to_owned()))
    }

    #[test]
    fn kinds_and_messages_are_classified() {
        use DatabaseErrorKind as Kind;
        use ErrorKind::{Contention, Misconfigured, Other, Unavailable};
        for (kind, message, expected, effect) in [
            (Kind::SerializationFailure, "?", Contention, Effect::None),
            (
                Kind::Unknown,
                "canceling statement due to lock timeout",
                Contention,
                Effect::None,
            ),
            (Kind::Unknown, "deadlock detected", Contention, Effect::None),
            (Kind::ReadOnlyTransaction, "?", Unavailable, Effect::None),
            (Kind::UniqueViolation, "?", Misconfigured, Effect::None),
            (
                Kind::Unknown,
                "relation \"a\" does not exist",
                Misconfigured,
                Effect::None,
            ),
            (
                Kind::Unknown,
                "current transaction is aborted, commands ignored until end of transaction block",
                Other,
                Effect::None,
            ),
            (
                Kind::Unknown,
                "terminating connection due to administrator command",
                Unavailable,
                Effect::Unknown,
            ),
            (
                Kind::Unknown,
                "Verklemmung entdeckt",
                Other,
                Effect::Unknown,
            ),
            (
                Kind::UnableToSendCommand,
                "connection closed",
                Unavailable,
                Effect::Unknown,
            ),
            (Kind::ClosedConnection, "?", Unavailable, Effect::Unknown),
        ] {
            let error = error(kind, message);
            assert_eq!(
                is_transaction_retryable(&error),
                expected == Contention,
                "{message}"
            );
            let classified = classify(error);
            assert_eq!(
                (classified.kind(), classified.effect()),
                (expected, effect),
                "{message}"
            );
        }
        assert_eq!(classify(DieselError::NotFound).kind(), Other);
    }

    #[test]
    fn numbers_are_read_as_the_server_sends_them() {
        assert_eq!(number(&[1]), Some(1));
        assert_eq!(number(&[0xff, 0xfe]), Some(-2));
        assert_eq!(number(&[0, 0, 1, 0]), Some(256));
        assert_eq!(number(&i64::MIN.to_be_bytes()), Some(i64::MIN));
        assert_eq!(number(&[1, 2, 3]), None);
    }
}
