//! rusqlite, which blocks the thread that it runs on.
//!
//! The operations are async functions, whose futures go from thread to thread. A transaction of
//! rusqlite does not: it is not `Send`. So the operation's executor leaves each statement in a
//! [`Slot`], and the thread that polls the operation runs it there, between two polls. Nothing
//! waits: an operation is pending only while its statement is in the slot.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use idem_core::backend::{FinalResult, Meaning};
use idem_core::{
    Advance, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Key,
    Response, Result, async_trait,
};
use idem_sql::cells::{Cells, unexpected};
use idem_sql::executor::{Answer, BoundStatement, Executor};
use idem_sql::operations::Operations as _;
use idem_sql::parameters::Value;
use rusqlite::types::Value as LiteValue;
use rusqlite::{Connection, Error as LiteError};

use crate::codes::by_code;
use crate::error::Access;
use crate::session::Session;
use crate::store::{BACKEND, SqliteStore};

impl SqliteStore {
    /// Returns the operations in a transaction of rusqlite, whose record and rows commit together.
    /// They block, as rusqlite does: run them where blocking is allowed, such as in
    /// `tokio::task::spawn_blocking`.
    ///
    /// The transaction is a `Transaction` or a `Savepoint`, both of which lend their connection.
    /// Begin it with `TransactionBehavior::Immediate`, on the store's file. After an error with
    /// [`is_transaction_retryable`](crate::is_transaction_retryable) roll it back and repeat it as a
    /// whole, with the same key.
    ///
    /// # Errors
    ///
    /// `Misconfigured` where no transaction is open on the connection, or the store's file was
    /// replaced.
    pub fn rusqlite<'t>(&'t self, transaction: &'t Connection) -> Result<RusqliteTransaction<'t>> {
        if transaction.is_autocommit() {
            let message =
                "no transaction is open on the connection; begin one with BEGIN IMMEDIATE";
            let error = Error::new(ErrorKind::Misconfigured, Effect::None, message);
            return Err(error.at(BACKEND, "rusqlite"));
        }
        Ok(RusqliteTransaction {
            store: self,
            connection: transaction,
        })
    }
}

/// The operations in a transaction of rusqlite: see [`SqliteStore::rusqlite`].
#[derive(Debug, Clone, Copy)]
pub struct RusqliteTransaction<'t> {
    store: &'t SqliteStore,
    connection: &'t Connection,
}

impl RusqliteTransaction<'_> {
    /// [`claim`](idem_core::IdempotencyStore::claim) in the transaction.
    ///
    /// # Errors
    ///
    /// As for `claim`.
    pub fn claim_in(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.run("claim_in", async |store, session| {
            store.operations.claim(session, request).await
        })
    }

    /// [`complete`](idem_core::IdempotencyStore::complete) in the transaction. When it returns
    /// `ClaimLost`, roll back: another attempt does the work.
    ///
    /// # Errors
    ///
    /// As for `complete`.
    pub fn complete_in(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.run("complete_in", async |store, session| {
            let limits = store.operations.limits();
            let result = FinalResult::completed(response, retention, &limits)?;
            store.operations.finish(session, claim, &result).await
        })
    }

    /// [`fail`](idem_core::IdempotencyStore::fail) in the transaction.
    ///
    /// # Errors
    ///
    /// As for `fail`.
    pub fn fail_in(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.run("fail_in", async |store, session| {
            let limits = store.operations.limits();
            let result = FinalResult::failed(failure, retention, &limits)?;
            store.operations.finish(session, claim, &result).await
        })
    }

    /// [`checkpoint`](idem_core::CheckpointStore::checkpoint) in the transaction: the recovery point
    /// and the rows that belong to it commit together.
    ///
    /// # Errors
    ///
    /// As for `checkpoint`.
    pub fn checkpoint_in(&self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        self.run("checkpoint_in", async |store, session| {
            store
                .operations
                .checkpoint(session, claim, checkpoint)
                .await
        })
    }

    /// [`advance`](idem_core::WatermarkStore::advance) in the transaction: the mark and the rows of
    /// its version commit together.
    ///
    /// # Errors
    ///
    /// As for `advance`.
    pub fn advance_in(&self, source: &Key, version: u64, retention: Duration) -> Result<Advance> {
        self.run("advance_in", async |store, session| {
            let operations = &store.operations;
            operations
                .advance(session, source, version, retention)
                .await
        })
    }

    /// The caller commits, so the store cannot check the file afterwards: see `DatabaseFile`.
    fn run<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&SqliteStore, &mut Session<'_>) -> Result<T>,
    ) -> Result<T> {
        let slot = Slot::default();
        let worked = async {
            self.store.pools.file.before_write()?;
            let mut session = Session::Transaction(Box::new(Rusqlite(slot.clone())));
            work(self.store, &mut session).await
        };
        let worked = drive(self.connection, &slot, worked);
        worked.map_err(|error| error.at(BACKEND, operation))
    }
}

/// Polls the operation, and runs its statements, until it is done.
fn drive<T>(connection: &Connection, slot: &Slot, operation: impl Future<Output = T>) -> T {
    let mut operation = pin!(operation);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = operation.as_mut().poll(&mut context) {
            return done;
        }
        // Without a statement, the operation has yielded to other callers.
        if let Some(statement) = slot.asked() {
            slot.answer(run(connection, &statement).map_err(classify));
        }
    }
}

fn run(connection: &Connection, asked: &Asked) -> Result<Answer, LiteError> {
    let mut answer = Answer::default();
    let mut prepared = connection.prepare_cached(&asked.text)?;
    let width = prepared.column_count();
    let mut rows = prepared.query(rusqlite::params_from_iter(&asked.values))?;
    while let Some(row) = rows.next()? {
        let values = (0..width).map(|index| row.get::<_, LiteValue>(index));
        let values = values.collect::<Result<_, _>>()?;
        answer.rows.push(Box::new(LiteRow(values)));
    }
    drop(rows);
    if !asked.is_persistent {
        prepared.discard();
    }
    Ok(answer)
}

/// A statement that waits for the thread of its connection, or its answer.
#[derive(Debug, Clone, Default)]
struct Slot(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Empty,
    Asked(Asked),
    Answered(Result<Answer>),
}

struct Asked {
    text: Arc<str>,
    values: Vec<LiteValue>,
    is_persistent: bool,
}

/// Shows no value: it may be a secret.
impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

impl Slot {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn ask(&self, asked: Asked) {
        self.with(|state| *state = State::Asked(asked));
    }

    fn asked(&self) -> Option<Asked> {
        self.with(|state| match std::mem::take(state) {
            State::Asked(asked) => Some(asked),
            other => {
                *state = other;
                None
            }
        })
    }

    fn answer(&self, answer: Result<Answer>) {
        self.with(|state| *state = State::Answered(answer));
    }

    fn answered(&self) -> Poll<Result<Answer>> {
        self.with(|state| match std::mem::take(state) {
            State::Answered(answer) => Poll::Ready(answer),
            other => {
                *state = other;
                Poll::Pending
            }
        })
    }
}

#[derive(Debug)]
struct Rusqlite(Slot);

#[async_trait]
impl Executor for Rusqlite {
    type Error = Error;

    async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer> {
        self.0.ask(Asked {
            text: Arc::clone(&statement.text),
            values: statement.values.iter().map(bound).collect::<Result<_>>()?,
            is_persistent: statement.is_persistent,
        });
        poll_fn(|_| self.0.answered()).await
    }
}

fn bound(value: &Value<'_>) -> Result<LiteValue> {
    Ok(match value {
        Value::Text(text) => LiteValue::Text((*text).to_owned()),
        Value::OptionalText(text) => text.map(ToOwned::to_owned).into(),
        Value::Bytes(bytes) => LiteValue::Blob(bytes.to_vec()),
        Value::Number(number) => LiteValue::Integer(*number),
        Value::OptionalNumber(number) => (*number).into(),
        Value::Flag(flag) => LiteValue::Integer((*flag).into()),
        Value::Count(count) => LiteValue::Integer((*count).into()),
        Value::Array(_) => return Err(Error::invalid_input("SQLite has no arrays")),
    })
}

struct LiteRow(Vec<LiteValue>);

impl LiteRow {
    fn value(&self, index: usize) -> Result<&LiteValue> {
        self.0.get(index).ok_or_else(|| unexpected(index))
    }
}

impl Cells for LiteRow {
    fn width(&self) -> usize {
        self.0.len()
    }

    fn number(&self, index: usize) -> Result<Option<i64>> {
        match self.value(index)? {
            LiteValue::Null => Ok(None),
            LiteValue::Integer(number) => Ok(Some(*number)),
            _ => Err(unexpected(index)),
        }
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        match self.value(index)? {
            LiteValue::Null => Ok(None),
            LiteValue::Blob(bytes) => Ok(Some(bytes)),
            LiteValue::Text(text) => Ok(Some(text.as_bytes())),
            _ => Err(unexpected(index)),
        }
    }

    fn text(&self, index: usize) -> Result<Option<&str>> {
        match self.value(index)? {
            LiteValue::Null => Ok(None),
            LiteValue::Text(text) => Ok(Some(text)),
            _ => Err(unexpected(index)),
        }
    }
}

/// Shows no value: it may be a secret.
impl std::fmt::Debug for LiteRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiteRow").finish_non_exhaustive()
    }
}

/// Converts an error of a statement that writes.
fn classify(error: LiteError) -> Error {
    let meaning = match code(&error) {
        Some(code) => by_code(code),
        None => driver_meaning(&error),
    };
    Access::Write.error(meaning, error)
}

/// Returns the meaning of an error that the driver raised itself.
fn driver_meaning(error: &LiteError) -> Meaning {
    match error {
        LiteError::Utf8Error(..)
        | LiteError::FromSqlConversionFailure(..)
        | LiteError::IntegralValueOutOfRange(..)
        | LiteError::InvalidColumnIndex(_)
        | LiteError::InvalidColumnType(..) => (
            ErrorKind::Corrupt,
            Effect::Unknown,
            "what is stored makes no sense",
        ),
        LiteError::ToSqlConversionFailure(_) => (
            ErrorKind::InvalidInput,
            Effect::None,
            "a value cannot be stored",
        ),
        _ => (
            ErrorKind::Other,
            Effect::Unknown,
            "the driver failed; see the source",
        ),
    }
}

/// Returns the extended result code.
pub(super) fn code(error: &(dyn StdError + 'static)) -> Option<i32> {
    match error.downcast_ref()? {
        LiteError::SqliteFailure(error, _) => Some(error.extended_code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;
    use crate::is_transaction_retryable;

    #[test]
    fn the_codes_mean_what_they_mean_to_sqlx() {
        for code in 0..10_000 {
            let failure = || LiteError::SqliteFailure(ffi::Error::new(code), None);
            let error = classify(failure());
            let (kind, effect, _) = by_code(code);
            assert_eq!((error.kind(), error.effect()), (kind, effect), "{code}");
            let is_lock = matches!(code & 0xff, 5 | 6);
            assert_eq!(is_transaction_retryable(&failure()), is_lock, "{code}");
        }
    }

    #[test]
    fn the_drivers_own_errors_are_classified() {
        let corrupt = classify(LiteError::InvalidColumnIndex(3));
        assert_eq!(corrupt.kind(), ErrorKind::Corrupt);
        let other = classify(LiteError::InvalidQuery);
        assert_eq!(
            (other.kind(), other.effect()),
            (ErrorKind::Other, Effect::Unknown)
        );
    }
}
