//! Reads records from rows.

use idem_core::backend::StoredRecord;
use idem_core::{Bytes, ClaimOutcome, ClaimRequest, FailedPolicy, FencingToken, Record, Result};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::decode;

/// The columns of the answer to a claim or a read, in the order of the statements.
#[derive(Debug)]
pub(crate) struct Columns<'r>(pub(crate) &'r PgRow);

/// Microseconds from the Unix epoch to 2000-01-01, where the server's `timestamptz` begins
/// (<https://www.postgresql.org/docs/current/datatype-datetime.html>).
const YEAR_2000: i64 = 946_684_800_000_000;

const NOW: usize = 12;

/// The index of the key's columns in answers of batches.
const KEY: usize = 13;

/// Reads a value of the row from its bytes, as the type that the statement returns; the row's
/// description is not checked.
pub(crate) fn cell<'r, T>(row: &'r PgRow, index: usize) -> Result<T>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get_unchecked(index).map_err(decode)
}

impl<'r> Columns<'r> {
    fn read<T>(&self, index: usize) -> Result<T>
    where
        T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        cell(self.0, index)
    }

    /// Returns whether the claim wrote this row.
    fn is_won(&self) -> Result<bool> {
        self.read(0)
    }

    /// Returns whether the attempt that reads the row also wrote it.
    fn is_own(&self) -> Result<bool> {
        self.read(0)
    }

    pub(crate) fn token(&self) -> Result<FencingToken> {
        self.read(2).map(FencingToken::from_i64)
    }

    /// Returns the index, from 1, of the lookup in its batch.
    pub(crate) fn number(&self) -> Result<i64> {
        self.read(KEY)
    }

    /// Returns scope, operation and id from the answer of a batch.
    pub(crate) fn key(&self) -> Result<(&'r str, &'r str, &'r str)> {
        Ok((self.read(KEY)?, self.read(KEY + 1)?, self.read(KEY + 2)?))
    }

    /// Returns the same from the answer of a batched insert.
    pub(crate) fn inserted_key(&self) -> Result<(&'r str, &'r str, &'r str)> {
        Ok((self.read(2)?, self.read(3)?, self.read(4)?))
    }

    /// Returns the answer to a claim.
    pub(crate) fn outcome(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let stored = self.stored(self.read(NOW)?)?;
        if self.is_won()? {
            return Ok(ClaimOutcome::Acquired(stored.claim(request)));
        }
        stored.loses(request)
    }

    /// Returns the claim that inserted this row, alone or in a batch.
    pub(crate) fn inserted(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let claim = StoredRecord {
            state: StoredRecord::IN_FLIGHT,
            token: self.read(0)?,
            attempts: 1,
            lease_ends_at: self.read(1)?,
            now: self.read(0)?,
            fingerprint: &[],
            created_at: 0,
            expires_at: 0,
            fails_when_stale: false,
            sealed_at: None,
            metadata: None,
            result: None,
        };
        Ok(ClaimOutcome::Acquired(claim.claim(request)))
    }

    /// Returns the outcome of a claim whose plain read found a live record; `None` where the claim
    /// may have to acquire or fail it. The columns are those of a claim's answer, except that the
    /// first says whether this very attempt holds the record.
    pub(crate) fn lost(&self, request: &ClaimRequest) -> Result<Option<ClaimOutcome>> {
        let stored = self.stored(self.read_at()?)?;
        let same = stored.fingerprint == &request.fingerprint().to_bytes()[..];
        let touches = stored.expires_at <= stored.now
            || match stored.state {
                StoredRecord::IN_FLIGHT => self.is_own()? || stored.lease_ends_at <= stored.now,
                StoredRecord::FAILED => same && request.on_failed() == FailedPolicy::Retry,
                _ => false,
            };
        if touches {
            return Ok(None);
        }
        stored.loses(request).map(Some)
    }

    /// Returns the record, if it has not expired.
    pub(crate) fn live_record(&self) -> Result<Option<Record>> {
        let stored = self.stored(self.read_at()?)?;
        if stored.expires_at <= stored.now {
            return Ok(None);
        }
        stored.record().map(Some)
    }

    /// Returns the clock of a plain read, in the server's own form, which spares the server the
    /// arithmetic.
    fn read_at(&self) -> Result<i64> {
        Ok(self.read::<i64>(NOW)?.saturating_add(YEAR_2000))
    }

    fn stored(&self, now: i64) -> Result<StoredRecord<'r>> {
        Ok(StoredRecord {
            state: self.read::<i16>(1)?.into(),
            token: self.read(2)?,
            attempts: self.read::<i32>(3)?.into(),
            fingerprint: self.read(4)?,
            created_at: self.read(5)?,
            expires_at: self.read(6)?,
            lease_ends_at: self.read(7)?,
            fails_when_stale: self.read(8)?,
            sealed_at: self.read(9)?,
            metadata: self.read(10)?,
            result: self.read::<Option<Vec<u8>>>(11)?.map(Bytes::from),
            now,
        })
    }
}
