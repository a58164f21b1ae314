//! mysql_async.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

use idem_core::backend::Meaning;
use idem_core::engine::transaction_ended;
use idem_core::{Effect, Error, ErrorKind, Result, async_trait};
use idem_sql::cells::{Cells, unexpected};
use idem_sql::executor::{Answer, BoundStatement, Executor};
use idem_sql::parameters::Value;
use mysql_async::prelude::{Protocol, Queryable};
use mysql_async::{
    Conn, DriverError, Error as MyError, IoError, Opts, Params, Pool, QueryResult, Transaction,
    Value as MyValue,
};

use super::BoxExecutor;
use super::connected::Connected;
use crate::codes::meaning;
use crate::error::Access;
use crate::store::BACKEND;
use crate::transaction::{COMMIT, NO_SAVEPOINT, ROLLBACK};
use crate::transaction_retry::Connections;

impl Connected for Transaction<'_> {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        counts_met_rows(self.opts())?;
        Ok(Box::new(MySqlAsync(self)))
    }
}

impl Connected for MySqlAsyncTransaction {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        Ok(Box::new(MySqlAsync(&mut self.0)))
    }
}

fn counts_met_rows(options: &Opts) -> Result<()> {
    match options.client_found_rows() {
        true => Ok(()),
        false => {
            let message = "the connection does not count the rows that a condition meets; open it with \
                           `client_found_rows(true)`, or `client_found_rows=true` in the URL";
            Err(Error::new(ErrorKind::Misconfigured, Effect::None, message))
        }
    }
}

/// An open transaction of [`MySqlAsyncTransactions`](crate::MySqlAsyncTransactions).
///
/// It is a [`Conn`] for statements. Do not call its `start_transaction`, which would commit; a
/// savepoint is a statement. Dropped without an end, the transaction is rolled back when the pool
/// resets the connection.
#[derive(Debug)]
pub struct MySqlAsyncTransaction(Conn);

impl MySqlAsyncTransaction {
    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// As for [`Transaction::commit`](crate::Transaction::commit).
    ///
    /// # Cancellation
    ///
    /// Either all of it is committed or nothing.
    pub async fn commit(mut self) -> Result<()> {
        let Err(error) = self.0.query_drop(COMMIT).await else {
            return Ok(());
        };
        let error = match number(&error) {
            Some(NO_SAVEPOINT) => {
                let _ = self.0.query_drop(ROLLBACK).await;
                transaction_ended(Effect::Unknown).with_source(error)
            }
            _ => classify(error),
        };
        let error = match error.kind() {
            ErrorKind::Contention => error.with_effect(Effect::Unknown),
            _ => error,
        };
        Err(error.at(BACKEND, "commit"))
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the connection is lost; the server rolls back then.
    ///
    /// # Cancellation
    ///
    /// The pool rolls back.
    pub async fn rollback(mut self) -> Result<()> {
        let done = self.0.query_drop(ROLLBACK).await;
        done.map_err(|error| classify(error).at(BACKEND, "rollback"))
    }
}

impl Connections for Pool {
    type Transaction = MySqlAsyncTransaction;

    async fn begin(&self, text: &'static str) -> Result<MySqlAsyncTransaction> {
        let begun = async {
            let mut connection = self.get_conn().await.map_err(classify)?;
            counts_met_rows(connection.opts())?;
            if !connection.opts().pool_opts().reset_connection() {
                let message = "the pool hands connections back as they are, with open transactions; leave \
                               `reset_connection` on";
                return Err(Error::new(ErrorKind::Misconfigured, Effect::None, message));
            }
            connection.query_drop(text).await.map_err(classify)?;
            Ok(MySqlAsyncTransaction(connection))
        };
        let begun: Result<_> = begun.await;
        begun.map_err(|error| error.with_effect(Effect::None).at(BACKEND, "begin"))
    }

    async fn commit(transaction: MySqlAsyncTransaction) -> Result<()> {
        transaction.commit().await
    }

    async fn roll_back(transaction: MySqlAsyncTransaction) {
        let _ = transaction.rollback().await;
    }
}

impl Deref for MySqlAsyncTransaction {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.0
    }
}

impl DerefMut for MySqlAsyncTransaction {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.0
    }
}

#[derive(Debug)]
struct MySqlAsync<'t, Q>(&'t mut Q);

#[async_trait]
impl<Q: Queryable + Debug + Sync> Executor for MySqlAsync<'_, Q> {
    type Error = Error;

    /// The driver keeps the statements prepared that its `stmt_cache_size` has room for. A statement
    /// without values that is not persistent is sent as text, in one round trip.
    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer> {
        if statement.values.is_empty() && !statement.is_persistent {
            let sent = self.0.query_iter(&*statement.text).await;
            return answered(sent.map_err(classify)?).await;
        }
        let values: Vec<_> = statement.values.iter().map(bound).collect::<Result<_>>()?;
        let values = match values.is_empty() {
            true => Params::Empty,
            false => Params::Positional(values),
        };
        let sent = self.0.exec_iter(&*statement.text, values).await;
        answered(sent.map_err(classify)?).await
    }
}

async fn answered<P: Protocol>(mut result: QueryResult<'_, 'static, P>) -> Result<Answer> {
    let mut answer = Answer::default();
    let rows = result.collect::<mysql_async::Row>().await;
    for row in rows.map_err(classify)? {
        answer.rows.push(Box::new(MyRow(row.unwrap())));
    }
    answer.affected = result.affected_rows();
    answer.insert_id = result.last_insert_id().unwrap_or(0);
    result.drop_result().await.map_err(classify)?;
    Ok(answer)
}

/// Binds texts as bytes, because the columns hold bytes.
fn bound(value: &Value<'_>) -> Result<MyValue> {
    Ok(match value {
        Value::Text(text) => MyValue::Bytes(text.as_bytes().to_vec()),
        Value::OptionalText(text) => text.map(str::as_bytes).into(),
        Value::Bytes(bytes) => MyValue::Bytes(bytes.to_vec()),
        Value::Number(number) => MyValue::Int(*number),
        Value::OptionalNumber(number) => (*number).into(),
        Value::Flag(flag) => MyValue::Int((*flag).into()),
        Value::Count(count) => MyValue::Int((*count).into()),
        Value::Array(_) => {
            let message = "the server has no arrays";
            return Err(Error::invalid_input(message));
        }
    })
}

/// The values of a row.
struct MyRow(Vec<MyValue>);

impl MyRow {
    fn value(&self, index: usize) -> Result<&MyValue> {
        self.0.get(index).ok_or_else(|| unexpected(index))
    }
}

impl Cells for MyRow {
    fn width(&self) -> usize {
        self.0.len()
    }

    /// Reads the text protocol's numbers too, which are digits.
    fn number(&self, index: usize) -> Result<Option<i64>> {
        match self.value(index)? {
            MyValue::NULL => Ok(None),
            MyValue::Int(number) => Ok(Some(*number)),
            MyValue::UInt(number) => {
                let number = i64::try_from(*number);
                number.map(Some).map_err(|_| unexpected(index))
            }
            MyValue::Bytes(digits) => {
                let digits = std::str::from_utf8(digits).ok();
                let number = digits.and_then(|digits| digits.parse().ok());
                number.map(Some).ok_or_else(|| unexpected(index))
            }
            _ => Err(unexpected(index)),
        }
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        match self.value(index)? {
            MyValue::NULL => Ok(None),
            MyValue::Bytes(bytes) => Ok(Some(bytes)),
            _ => Err(unexpected(index)),
        }
    }
}

/// Shows no value: it may be a secret.
impl std::fmt::Debug for MyRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MyRow").finish_non_exhaustive()
    }
}

/// Converts an error of a statement that writes.
fn classify(error: MyError) -> Error {
    let meaning = match &error {
        MyError::Server(server) => meaning(server.code),
        error => driver_meaning(error),
    };
    Access::Write.error(meaning, error)
}

/// Returns the meaning of an error that the driver raised itself.
fn driver_meaning(error: &MyError) -> Meaning {
    match error {
        MyError::Io(IoError::Io(_)) | MyError::Driver(DriverError::ConnectionClosed) => (
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the connection to the server was lost",
        ),
        MyError::Driver(DriverError::PacketTooLarge) => (
            ErrorKind::Misconfigured,
            Effect::None,
            "the statement is larger than `max_allowed_packet` of the driver; raise it",
        ),
        MyError::Driver(
            DriverError::PacketOutOfOrder
            | DriverError::UnexpectedPacket { .. }
            | DriverError::FromRow { .. }
            | DriverError::FromValue { .. },
        ) => (
            ErrorKind::Corrupt,
            Effect::Unknown,
            "the server's answer makes no sense",
        ),
        _ => (
            ErrorKind::Other,
            Effect::Unknown,
            "the driver failed; see the source",
        ),
    }
}

pub(super) fn number(error: &(dyn StdError + 'static)) -> Option<u16> {
    match error.downcast_ref()? {
        MyError::Server(server) => Some(server.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mysql_async::ServerError;

    use super::*;
    use crate::is_transaction_retryable;

    fn server(code: u16) -> MyError {
        let (message, state) = ("a message".to_owned(), "HY000".to_owned());
        MyError::Server(ServerError {
            code,
            message,
            state,
        })
    }

    #[test]
    fn the_servers_numbers_mean_what_they_mean_to_sqlx() {
        for code in 0..=u16::MAX {
            let error = classify(server(code));
            let (kind, effect, _) = meaning(code);
            assert_eq!((error.kind(), error.effect()), (kind, effect), "{code}");
        }
        for (code, is_retryable) in [(1213, true), (1205, true), (3572, true), (1064, false)] {
            assert_eq!(
                is_transaction_retryable(&server(code)),
                is_retryable,
                "{code}"
            );
            assert_eq!(
                is_transaction_retryable(&classify(server(code))),
                is_retryable
            );
        }
    }

    #[test]
    fn the_drivers_own_errors_are_classified() {
        let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        for (error, kind, effect) in [
            (
                MyError::Io(IoError::Io(lost)),
                ErrorKind::Unavailable,
                Effect::Unknown,
            ),
            (
                MyError::Driver(DriverError::ConnectionClosed),
                ErrorKind::Unavailable,
                Effect::Unknown,
            ),
            (
                MyError::Driver(DriverError::PacketTooLarge),
                ErrorKind::Misconfigured,
                Effect::None,
            ),
            (
                MyError::Driver(DriverError::PacketOutOfOrder),
                ErrorKind::Corrupt,
                Effect::Unknown,
            ),
            (
                MyError::Driver(DriverError::PoolDisconnected),
                ErrorKind::Other,
                Effect::Unknown,
            ),
        ] {
            assert!(!is_transaction_retryable(&error));
            let classified = classify(error);
            assert_eq!((classified.kind(), classified.effect()), (kind, effect));
        }
    }

    #[test]
    fn a_number_is_read_in_every_form() {
        let row = MyRow(vec![
            MyValue::NULL,
            MyValue::Int(-3),
            MyValue::UInt(7),
            MyValue::Bytes(b"-42".to_vec()),
            MyValue::UInt(u64::MAX),
            MyValue::Bytes(b"a text".to_vec()),
        ]);
        let numbers = [None, Some(-3), Some(7), Some(-42)];
        for (index, expected) in numbers.into_iter().enumerate() {
            assert_eq!(row.number(index).unwrap(), expected);
        }
        for index in 4..7 {
            assert!(row.number(index).is_err());
        }
        assert_eq!(row.text(5).unwrap(), Some("a text"));
        assert!(row.bytes(1).is_err());
    }
}
