//! Runs a statement on a connection, on the thread that may wait for it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use duckdb::Connection;
use duckdb::types::Value;
use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::cells::{Cells, Row, unexpected};
use idem_sql::parameters;

/// A statement with its values.
#[derive(Debug, Clone)]
pub(crate) struct BoundStatement {
    pub(crate) text: Arc<str>,
    /// In the order of the placeholders. That of the clock is filled in when the statement runs.
    pub(crate) values: Vec<Value>,
    /// Which of the values is the clock.
    pub(crate) clock: Option<usize>,
}

/// Returns the clock, in microseconds.
///
/// DuckDB runs in this process and has no clock of its own. Its `now()` is that of the beginning of
/// the transaction, which may be long ago in a caller's transaction. So the clock is read here, on
/// the thread that runs the statement, just before.
fn clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

/// Runs the statement, and returns its rows. `RETURNING` takes no parameters, so the clock follows
/// the columns of each row.
pub(crate) fn run(
    connection: &Connection,
    statement: &BoundStatement,
) -> Result<Vec<Row>, duckdb::Error> {
    let mut prepared = connection.prepare_cached(&statement.text)?;
    let now = statement.clock.map(|_| Value::BigInt(clock()));
    let values = statement.values.iter().enumerate();
    let values = values.map(|(index, value)| match &now {
        Some(now) if statement.clock == Some(index) => now,
        _ => value,
    });
    let mut rows = prepared.query(duckdb::params_from_iter(values))?;
    let mut all: Vec<Row> = Vec::new();
    while let Some(row) = rows.next()? {
        let width = row.as_ref().column_count();
        let mut values = Vec::with_capacity(width + 1);
        for index in 0..width {
            values.push(row.get(index)?);
        }
        values.extend(now.clone());
        all.push(Box::new(DuckDbRow(values)));
    }
    Ok(all)
}

/// A row, and perhaps the clock behind it.
struct DuckDbRow(Vec<Value>);

/// Shows how many values there are, because they are keys and payloads.
impl std::fmt::Debug for DuckDbRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = self.0.len();
        f.debug_struct("DuckDbRow").field("width", &width).finish()
    }
}

impl DuckDbRow {
    fn get(&self, index: usize) -> Result<&Value> {
        self.0.get(index).ok_or_else(|| unexpected(index))
    }
}

impl Cells for DuckDbRow {
    fn width(&self) -> usize {
        self.0.len()
    }

    fn number(&self, index: usize) -> Result<Option<i64>> {
        match self.get(index)? {
            Value::Null => Ok(None),
            Value::Boolean(flag) => Ok(Some(i64::from(*flag))),
            Value::Int(number) => Ok(Some(i64::from(*number))),
            Value::BigInt(number) => Ok(Some(*number)),
            Value::HugeInt(number) => {
                let number = i64::try_from(*number).map_err(|_| unexpected(index))?;
                Ok(Some(number))
            }
            _ => Err(unexpected(index)),
        }
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        match self.get(index)? {
            Value::Null => Ok(None),
            Value::Blob(bytes) => Ok(Some(bytes)),
            _ => Err(unexpected(index)),
        }
    }

    fn text(&self, index: usize) -> Result<Option<&str>> {
        match self.get(index)? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            _ => Err(unexpected(index)),
        }
    }
}

/// Converts a value for the driver.
pub(crate) fn value(value: &parameters::Value<'_>) -> Result<Value> {
    Ok(match value {
        parameters::Value::Text(text) => Value::Text((*text).to_owned()),
        parameters::Value::OptionalText(text) => {
            text.map_or(Value::Null, |text| Value::Text(text.to_owned()))
        }
        parameters::Value::Bytes(bytes) => Value::Blob(bytes.to_vec()),
        parameters::Value::Number(number) => Value::BigInt(*number),
        parameters::Value::OptionalNumber(number) => number.map_or(Value::Null, Value::BigInt),
        parameters::Value::Flag(flag) => Value::Boolean(*flag),
        parameters::Value::Count(count) => Value::Int(*count),
        parameters::Value::Array(_) => {
            let message = "no statement of DuckDB takes an array";
            return Err(Error::new(ErrorKind::Other, Effect::None, message));
        }
    })
}
