//! Rows from the columns that the SQL stores keep.

use std::collections::BTreeMap;

use idem_core::backend::{StoredRecord, StoredResult};
use idem_core::{AttemptId, BoxError, Checkpoint, Fingerprint, Key};

use super::{Row, State};
use crate::history::hashed;

/// The value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Number(i64),
    Bytes(Vec<u8>),
}

/// The columns of a row, by name.
pub(super) type Columns = BTreeMap<String, Value>;

fn number(columns: &Columns, name: &str) -> Result<i64, BoxError> {
    match columns.get(name) {
        Some(Value::Number(number)) => Ok(*number),
        other => Err(format!("the column {name} is {other:?}").into()),
    }
}

fn bytes<'c>(columns: &'c Columns, name: &str) -> Result<&'c [u8], BoxError> {
    match columns.get(name) {
        Some(Value::Bytes(bytes)) => Ok(bytes),
        other => Err(format!("the column {name} is {other:?}").into()),
    }
}

/// Returns the hash of the row's key, as histories have it.
pub(super) fn key(columns: &Columns) -> Result<String, BoxError> {
    let part = |name| Ok::<_, BoxError>(std::str::from_utf8(bytes(columns, name)?)?.to_owned());
    Ok(hashed_key(&Key::new(
        part("scope")?,
        part("operation")?,
        part("id")?,
    )?))
}

pub(super) fn hashed_key(key: &Key) -> String {
    key.hashed()[..16].to_owned()
}

/// Returns the row of these columns.
pub(super) fn row(columns: &Columns) -> Result<Row, BoxError> {
    let fails = !matches!(columns.get("sweep_at"), None | Some(Value::Null));
    let result = match columns.get("result") {
        None | Some(Value::Null) => None,
        Some(_) => Some(bytes(columns, "result")?),
    };
    Parts {
        state: number(columns, "state")?,
        token: number(columns, "token")?,
        attempt: bytes(columns, "attempt_id")?,
        fingerprint: bytes(columns, "fingerprint")?,
        attempts: number(columns, "attempts")?,
        lease_ends_at: number(columns, "lease_ends_at")?,
        expires_at: number(columns, "expires_at")?,
        fails,
        result,
    }
    .row()
}

/// What every store keeps of a record.
pub(super) struct Parts<'p> {
    pub(super) state: i64,
    pub(super) token: i64,
    pub(super) attempt: &'p [u8],
    pub(super) fingerprint: &'p [u8],
    pub(super) attempts: i64,
    pub(super) lease_ends_at: i64,
    pub(super) expires_at: i64,
    pub(super) fails: bool,
    pub(super) result: Option<&'p [u8]>,
}

impl Parts<'_> {
    pub(super) fn row(&self) -> Result<Row, BoxError> {
        let state = match self.state {
            StoredRecord::IN_FLIGHT => State::InFlight,
            StoredRecord::COMPLETED => State::Completed,
            StoredRecord::FAILED => State::Failed,
            StoredRecord::RELEASED => State::Released,
            other => return Err(format!("a record has the state {other}").into()),
        };
        let stored = self.result.map(|bytes| bytes.to_vec().into());
        let hash = match (state, stored) {
            (State::Released, _) | (_, None) => 0,
            (State::InFlight, Some(stored)) => hashed::of_checkpoint(&Checkpoint::decode(&stored)?),
            (_, Some(stored)) => match StoredResult::decode(stored)? {
                StoredResult::Response(response) => hashed::of_response(&response),
                StoredResult::Failure(failure) => hashed::of_failure(&failure),
            },
        };
        let is_nobody = self.attempt == AttemptId::NIL.as_bytes();
        let fingerprint = Fingerprint::from_bytes(self.fingerprint)?.to_string();
        Ok(Row {
            state,
            tok: self.token,
            att: (!is_nobody).then(|| hashed::of_bytes(self.attempt)),
            fp: hashed::of_bytes(fingerprint.as_bytes()),
            n: u32::try_from(self.attempts)?,
            lease_end: self.lease_ends_at,
            expires: self.expires_at,
            fails: self.fails,
            hash,
        })
    }
}
