//! From a row to a record.

use idem_core::backend::StoredRecord;
use idem_core::{Bytes, ClaimOutcome, ClaimRequest, FailedPolicy, FencingToken, Record, Result};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::decode;

/// The columns that a claim or a read answers with, in the order of the statements.
#[derive(Debug)]
pub(crate) struct Columns<'r>(pub(crate) &'r PgRow);

/// From the Unix epoch to 2000-01-01, from where the server counts the microseconds of a
/// `timestamptz` (<https://www.postgresql.org/docs/current/datatype-datetime.html>).
const YEAR_2000: i64 = 946_684_800_000_000;

const NOW: usize = 12;

/// Where the key's columns follow, in answers of batches.
const KEY: usize = 13;

/// A value of the row. Nothing but its bytes says what it is, and they are read for what the
/// statement promises.
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

    /// Whether the claim wrote this row.
    fn is_won(&self) -> Result<bool> {
        self.read(0)
    }

    /// Whether the attempt that looks is the one that wrote this row.
    fn is_own(&self) -> Result<bool> {
        self.read(0)
    }

    pub(crate) fn token(&self) -> Result<FencingToken> {
        self.read(2).map(FencingToken::from_i64)
    }

    /// The place, from 1, of what was looked for together.
    pub(crate) fn number(&self) -> Result<i64> {
        self.read(KEY)
    }

    /// Scope, operation and id of a batch's answer.
    pub(crate) fn key(&self) -> Result<(&'r str, &'r str, &'r str)> {
        Ok((self.read(KEY)?, self.read(KEY + 1)?, self.read(KEY + 2)?))
    }

    /// The same of the answer of a batch of insertions.
    pub(crate) fn inserted_key(&self) -> Result<(&'r str, &'r str, &'r str)> {
        Ok((self.read(2)?, self.read(3)?, self.read(4)?))
    }

    /// The answer to a claim.
    pub(crate) fn outcome(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let stored = self.stored(self.read(NOW)?)?;
        if self.is_won()? {
            return Ok(ClaimOutcome::Acquired(stored.claim(request)));
        }
        stored.loses(request)
    }

    /// The claim that inserted this row, alone or of a batch.
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

    /// What the claim learns of a record that it has found by a plain read; `None` where it may
    /// have to acquire it, or to fail it. The columns of a claim's answer, but that the first says
    /// whether this very attempt holds the record.
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

    /// The record, if it has not expired.
    pub(crate) fn live_record(&self) -> Result<Option<Record>> {
        let stored = self.stored(self.read_at()?)?;
        if stored.expires_at <= stored.now {
            return Ok(None);
        }
        stored.record().map(Some)
    }

    /// The clock of a plain read: as the server has it, which spares it the arithmetic.
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
