//! [`WithRows`]: completions that commit together with a row of the caller's.
//!
//! The row is a record of its own, under another operation, claimed and completed in the same
//! transaction. So every store with transactions tries the same: where the result is, its row is,
//! and no row is without its result.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{
    BoxError, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    Failure, Fingerprint, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result,
    WatermarkStore,
};
use serde::{Deserialize, Serialize};

use crate::cell::Cell;

/// The ending of the files with the transactions that were tried.
const ENDING: &str = "rows";

/// A store that completes some claims in a transaction with a row.
#[derive(Debug)]
pub(super) struct WithRows {
    inner: Arc<dyn IdempotencyStore>,
    cell: Cell,
    namespace: String,
    tried: Mutex<File>,
}

/// A transaction that was tried: its claim.
#[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Tried {
    scope: String,
    operation: String,
    id: String,
    token: i64,
}

impl Tried {
    fn key(&self) -> Result<Key> {
        Key::new(&self.scope, &self.operation, &self.id)
    }

    /// Returns the key of the row.
    fn row(&self) -> Result<Key> {
        Key::new(&self.scope, "row", format!("{}-{}", self.id, self.token))
    }
}

/// What the rows of a namespace showed.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The rows that are there, each with its result.
    pub(super) whole: u64,
    /// The rows without their result, and the results without their row.
    pub(super) torn: Vec<String>,
}

impl WithRows {
    /// Completes in transactions of this store, if it has any, and notes them beside the history
    /// `file`.
    pub(super) fn new(
        inner: Arc<dyn IdempotencyStore>,
        cell: Cell,
        namespace: &str,
        file: &Path,
    ) -> io::Result<Self> {
        let tried = OpenOptions::new()
            .append(true)
            .create(true)
            .open(file.with_extension(ENDING))?;
        Ok(Self {
            inner,
            cell,
            namespace: namespace.to_owned(),
            tried: Mutex::new(tried),
        })
    }

    /// Completes in a transaction with the row. Returns `None` if the store has no transactions.
    async fn complete_with_row(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<Option<()>> {
        let begun = self.cell.begin(&self.namespace).await;
        let Some(mut transaction) = begun.map_err(|error| failed(Effect::None, error))? else {
            return Ok(None);
        };
        let key = claim.key();
        let tried = Tried {
            scope: key.scope().to_owned(),
            operation: key.operation().to_owned(),
            id: key.id().to_owned(),
            token: claim.token().as_i64(),
        };
        self.note(&tried)
            .map_err(|error| failed(Effect::None, error))?;
        // Nothing is committed before the end, whatever fails.
        transaction
            .complete(claim, response, retention)
            .await
            .map_err(without_effect)?;
        let row =
            ClaimRequest::new(tried.row()?, Fingerprint::raw("row")).with_retention(retention);
        let outcome = transaction.claim(&row).await.map_err(without_effect)?;
        if let ClaimOutcome::Acquired(row) = outcome {
            transaction
                .complete(&row, response, retention)
                .await
                .map_err(without_effect)?;
        }
        transaction
            .commit()
            .await
            .map_err(|error| failed(Effect::Unknown, error))?;
        Ok(Some(()))
    }

    fn note(&self, tried: &Tried) -> io::Result<()> {
        let mut line = serde_json::to_vec(tried)?;
        line.push(b'\n');
        let file = self.tried.lock();
        file.unwrap_or_else(PoisonError::into_inner)
            .write_all(&line)
    }
}

/// Returns whether this claim is completed in a transaction: one in 32, whatever tokens count.
fn is_chosen(claim: &Claim) -> bool {
    let token = claim.token().as_i64().unsigned_abs();
    token.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59 == 0
}

fn failed(effect: Effect, source: impl Into<BoxError>) -> Error {
    Error::new(ErrorKind::Unavailable, effect, "the transaction failed").with_source(source.into())
}

/// An answer of the record stays; any other error ends the transaction, which is rolled back.
fn without_effect(error: Error) -> Error {
    match error.kind() {
        ErrorKind::ClaimLost | ErrorKind::AlreadySealed => error,
        _ => failed(Effect::None, error),
    }
}

/// Checks every row that callers tried to write, by the files in the folder.
pub(super) async fn check(folder: &Path, store: &dyn IdempotencyStore) -> Result<Rows, BoxError> {
    let mut rows = Rows::default();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|end| end != ENDING) {
            continue;
        }
        for tried in read(&path)? {
            let token = tried.token;
            let record = store.get(&tried.key()?).await?;
            let is_sealed = matches!(&record, Some(Record::Completed(record))
                if record.info.token.as_i64() == token);
            let row = store.get(&tried.row()?).await?;
            match (is_sealed, matches!(row, Some(Record::Completed(_)))) {
                (true, true) => rows.whole += 1,
                (false, false) => {}
                (true, false) => rows.torn.push(format!("{} {token}: no row", tried.id)),
                (false, true) => rows.torn.push(format!("{} {token}: no result", tried.id)),
            }
        }
    }
    Ok(rows)
}

/// Returns the transactions of a file, each once.
fn read(path: &PathBuf) -> Result<std::collections::HashSet<Tried>, BoxError> {
    let text = std::fs::read_to_string(path)?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    Ok(whole
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?)
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl IdempotencyStore for WithRows {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        self.inner.checkpoints()
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        self.inner.watermarks()
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        self.inner.admin()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.inner.claim(request).await
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        if is_chosen(claim) {
            let done = self.complete_with_row(claim, response, retention).await?;
            if let Some(()) = done {
                return Ok(());
            }
        }
        self.inner.complete(claim, response, retention).await
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        self.inner.fail(claim, failure, retention).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.inner.release(claim).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        self.inner.renew(claim, lease).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.inner.get(key).await
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        self.inner.delete_expired(limit).await
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        self.inner.fail_abandoned(limit).await
    }
}
