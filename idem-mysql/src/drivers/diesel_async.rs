//! diesel-async, which has mysql_async underneath.
//!
//! An error of diesel has no number: it has a kind for some of them, and the server's message
//! (<https://docs.rs/diesel-async/0.9.2/src/diesel_async/mysql/error_helper.rs.html>). The numbers
//! that matter in a transaction are recognised by the kind, and by the message where the server's
//! `lc_messages` is English. In another language such an error is `Other`.

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use diesel::deserialize::{self, FromSql, QueryableByName};

use diesel::mysql::Mysql;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::{DatabaseErrorKind, Error as DieselError, QueryResult};
use diesel::row::{Field, NamedRow};
use diesel::sql_types::{self, Untyped};
use diesel_async::{AnsiTransactionManager, AsyncMysqlConnection, RunQueryDsl, TransactionManager};
use idem_core::{Effect, Error, ErrorKind, Result, async_trait};
use idem_sql::cells::OwnedRow;
use idem_sql::executor::{Answer, BoundStatement, Executor};
use idem_sql::parameters::Value;

use super::BoxExecutor;
use super::connected::Connected;
use super::returns_rows;
use crate::codes::{DEADLOCK, LOCK_WAIT, NO_WAIT, NOT_NULL, RECORD_CHANGED, meaning};
use crate::error::Access;

impl Connected for AsyncMysqlConnection {
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
struct DieselAsync<'t>(Mutex<&'t mut AsyncMysqlConnection>);

#[async_trait]
impl Executor for DieselAsync<'_> {
    type Error = Error;

    /// Diesel returns the rows of a statement or their count, not both.
    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer> {
        let connection = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut answer = Answer::default();
        if returns_rows(&statement.text) {
            let rows = Sent(statement).load::<DieselRow>(&mut **connection).await;
            let rows = rows.map_err(classify)?.into_iter();
            answer.rows = rows.map(|row| Box::new(row.0) as _).collect();
        } else {
            let done = Sent(statement).execute(&mut **connection).await;
            answer.affected = done.map_err(classify)? as u64;
        }
        Ok(answer)
    }
}

impl fmt::Debug for DieselAsync<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DieselAsync").finish_non_exhaustive()
    }
}

/// A statement, as a query of diesel. Its cache of prepared statements has the text as the key.
struct Sent<'q>(&'q BoundStatement<'q>);

impl QueryFragment<Mysql> for Sent<'_> {
    /// Diesel writes the placeholders itself.
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
        if !self.0.is_persistent {
            out.unsafe_to_cache_prepared();
        }
        let mut parts = self.0.text.split('?');
        out.push_sql(parts.next().unwrap_or_default());
        let mut values = self.0.values.iter();
        for part in parts {
            let value = values.next();
            let value = value.ok_or_else(|| mistake("a placeholder has no value"))?;
            push(&mut out, value)?;
            out.push_sql(part);
        }
        Ok(())
    }
}

/// Binds texts as bytes, because the columns hold bytes.
fn push<'b>(out: &mut AstPass<'_, 'b, Mysql>, value: &'b Value<'_>) -> QueryResult<()> {
    type OptionalBytes = sql_types::Nullable<sql_types::Binary>;
    type OptionalNumber = sql_types::Nullable<sql_types::BigInt>;
    match value {
        Value::Text(text) | Value::OptionalText(Some(text)) => {
            out.push_bind_param::<sql_types::Binary, [u8]>(text.as_bytes())
        }
        Value::OptionalText(None) => out.push_bind_param::<OptionalBytes, _>(&None::<&[u8]>),
        Value::Bytes(bytes) => out.push_bind_param::<sql_types::Binary, [u8]>(bytes),
        Value::Number(number) => out.push_bind_param::<sql_types::BigInt, _>(number),
        Value::OptionalNumber(number) => out.push_bind_param::<OptionalNumber, _>(number),
        Value::Flag(flag) => out.push_bind_param::<sql_types::Bool, _>(flag),
        Value::Count(count) => out.push_bind_param::<sql_types::Integer, _>(count),
        Value::Array(_) => Err(mistake("the server has no arrays")),
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

impl QueryableByName<Mysql> for DieselRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> deserialize::Result<Self> {
        let cell = |index| {
            let field = diesel::row::Row::get(row, index)?;
            let value = field.value()?;
            let bytes = value.as_bytes().to_vec();
            // For a column of another type, it is an error.
            let number = <i64 as FromSql<sql_types::BigInt, Mysql>>::from_sql(value);
            let number = number.ok();
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
        error => meaning(number(error).unwrap_or(0)),
    };
    Access::Write.error(meaning, error)
}

/// diesel-async reports an error of mysql_async that is none of the server's by its text alone.
fn is_lost(error: &DieselError) -> bool {
    use DatabaseErrorKind::{ClosedConnection, UnableToSendCommand, Unknown};
    let DieselError::DatabaseError(kind, information) = error else {
        return false;
    };
    let message = information.message();
    let is_drivers = [
        "Input/output error: ",
        "Driver error: `Connection to the server is closed",
    ];
    match kind {
        ClosedConnection | UnableToSendCommand => true,
        Unknown => is_drivers.iter().any(|begin| message.starts_with(begin)),
        _ => false,
    }
}

/// Messages of the servers, and their numbers:
/// <https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html>.
const MESSAGES: &[(&str, u16)] = &[
    ("Deadlock found when trying to get lock", DEADLOCK),
    ("Lock wait timeout exceeded", LOCK_WAIT),
    (
        "Statement aborted because lock(s) could not be acquired immediately",
        NO_WAIT,
    ),
    ("Record has changed since last read", RECORD_CHANGED),
    (
        "Query execution was interrupted, maximum statement execution time exceeded",
        3024,
    ),
    (
        "Query execution was interrupted (max_statement_time exceeded)",
        1969,
    ),
    ("Query execution was interrupted", 1317),
    ("Connection was killed", 1927),
    ("Server shutdown in progress", 1053),
    (
        "The MySQL server is running with the --read-only option",
        1290,
    ),
    (
        "The MySQL server is running with the --super-read-only option",
        1290,
    ),
    (
        "The MariaDB server is running with the --read-only option",
        1290,
    ),
    ("WSREP has not yet prepared node", 1047),
    ("Prepared statement needs to be re-prepared", 1615),
    (
        "Table definition has changed, please retry transaction",
        1412,
    ),
];

/// Returns the number of a kind, or of a message in English; 0 where neither says it.
pub(super) fn number(error: &(dyn StdError + 'static)) -> Option<u16> {
    let error = error.downcast_ref::<DieselError>()?;
    let DieselError::DatabaseError(kind, information) = error else {
        return None;
    };
    if is_lost(error) {
        return None;
    }
    let message = information.message();
    Some(match kind {
        DatabaseErrorKind::UniqueViolation => 1062,
        DatabaseErrorKind::ForeignKeyViolation => 1452,
        DatabaseErrorKind::NotNullViolation => NOT_NULL,
        DatabaseErrorKind::CheckViolation => 3819,
        DatabaseErrorKind::ReadOnlyTransaction => 1792,
        _ if message.starts_with("Table ") && message.ends_with(" doesn't exist") => 1146,
        _ => {
            let known = MESSAGES.iter().find(|known| message.starts_with(known.0));
            known.map_or(0, |known| known.1)
        }
    })
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
        const LOCKED: &str = "Lock wait timeout exceeded; try restarting transaction";
        const NO_TABLE: &str = "Table 'shop.idem_records' doesn't exist";
        const LOST: &str = "Input/output error: Input/output error: reset";
        const CLOSED: &str = "Driver error: `Connection to the server is closed.'";
        const KILLED: &str = "Connection was killed";
        for (kind, message, expected, effect) in [
            (Kind::Unknown, LOCKED, Contention, Effect::None),
            (Kind::UniqueViolation, "?", Contention, Effect::None),
            (Kind::ReadOnlyTransaction, "?", Unavailable, Effect::None),
            (Kind::NotNullViolation, "?", Misconfigured, Effect::None),
            (Kind::Unknown, NO_TABLE, Misconfigured, Effect::None),
            (Kind::Unknown, KILLED, Unavailable, Effect::Unknown),
            (Kind::Unknown, LOST, Unavailable, Effect::Unknown),
            (Kind::Unknown, CLOSED, Unavailable, Effect::Unknown),
            (Kind::Unknown, "Verklemmung", Other, Effect::Unknown),
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
    fn every_known_message_has_a_number_with_a_meaning() {
        for (message, number) in MESSAGES {
            assert_ne!(meaning(*number).0, ErrorKind::Other, "{message}");
        }
    }
}
