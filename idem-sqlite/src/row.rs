//! Reads records from rows.

use idem_core::backend::StoredRecord;
use idem_core::{Bytes, ClaimOutcome, ClaimRequest, FencingToken, Record, Result};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::error::decode;

/// The columns of the answer to a claim or a read, in the order of the statements.
#[derive(Debug)]
pub(crate) struct Columns<'r>(pub(crate) &'r SqliteRow);

impl<'r> Columns<'r> {
    fn read<T>(&self, index: usize) -> Result<T>
    where
        T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
    {
        self.0.try_get_unchecked(index).map_err(decode)
    }

    /// Returns whether the claim wrote this row.
    fn is_won(&self) -> Result<bool> {
        self.read(0)
    }

    pub(crate) fn token(&self) -> Result<FencingToken> {
        self.read(2).map(FencingToken::from_i64)
    }

    /// Returns the answer to a claim.
    pub(crate) fn outcome(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let stored = self.stored()?;
        if self.is_won()? {
            return Ok(ClaimOutcome::Acquired(stored.claim(request)));
        }
        stored.loses(request)
    }

    /// Returns the record.
    pub(crate) fn record(&self) -> Result<Record> {
        self.stored()?.record()
    }

    fn stored(&self) -> Result<StoredRecord<'r>> {
        Ok(StoredRecord {
            state: self.read(1)?,
            token: self.read(2)?,
            attempts: self.read(3)?,
            fingerprint: self.read(4)?,
            created_at: self.read(5)?,
            expires_at: self.read(6)?,
            lease_ends_at: self.read(7)?,
            fails_when_stale: self.read(8)?,
            sealed_at: self.read(9)?,
            metadata: self.read(10)?,
            result: self.read::<Option<Vec<u8>>>(11)?.map(Bytes::from),
            now: self.read(12)?,
        })
    }
}
