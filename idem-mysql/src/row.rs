//! From a row to a record.

use std::str;

use idem_core::{
    Bytes, ClaimRequest, Error, FencingToken, Record, Result, StalePolicy, StoredRecord,
};
use sqlx::Row;
use sqlx::mysql::MySqlRow;

use crate::error::decode;

/// The columns that a read answers with, in the order of the statements.
#[derive(Debug)]
pub(crate) struct Columns<'r>(pub(crate) &'r MySqlRow);

/// What a claim makes of the record that it has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// In flight, and this attempt's own.
    Own,
    /// Expired, released, stale and open to takeover, or failed and to be tried again.
    Free,
    /// Stale, and to be failed.
    Abandoned,
    /// Somebody else's, sealed, or in conflict.
    Held,
}

const ATTEMPT: usize = 12;
/// Where the key's columns follow.
const KEY: usize = 13;

impl<'r> Columns<'r> {
    fn read<T>(&self, index: usize) -> Result<T>
    where
        T: sqlx::Decode<'r, sqlx::MySql> + sqlx::Type<sqlx::MySql>,
    {
        self.0.try_get_unchecked(index).map_err(decode)
    }

    pub(crate) fn token(&self) -> Result<FencingToken> {
        self.read(1).map(FencingToken::from_i64)
    }

    /// Whether it is the failure, still kept, of the acquisition with this token.
    pub(crate) fn is_failed(&self, token: FencingToken) -> Result<bool> {
        Ok(self.token()? == token
            && self.read::<i64>(0)? == StoredRecord::FAILED
            && self.read::<i64>(5)? > self.read::<i64>(11)?)
    }

    /// Scope, operation and id.
    pub(crate) fn key(&self) -> Result<(&'r [u8], &'r [u8], &'r [u8])> {
        Ok((self.read(KEY)?, self.read(KEY + 1)?, self.read(KEY + 2)?))
    }

    /// What the claim is to do, by the clock of the server that read the row.
    pub(crate) fn found(&self, request: &ClaimRequest) -> Result<Found> {
        let (state, now): (i64, i64) = (self.read(0)?, self.read(11)?);
        if self.read::<i64>(5)? <= now || state == StoredRecord::RELEASED {
            return Ok(Found::Free);
        }
        if self.read::<&[u8]>(3)? != request.fingerprint().to_bytes() {
            return Ok(Found::Held);
        }
        Ok(match state {
            StoredRecord::IN_FLIGHT
                if self.read::<&[u8]>(ATTEMPT)? == request.attempt().as_bytes() =>
            {
                Found::Own
            }
            StoredRecord::IN_FLIGHT if self.read::<i64>(6)? <= now => {
                let fails = self.read(7)? || request.on_stale() == StalePolicy::Fail;
                if fails { Found::Abandoned } else { Found::Free }
            }
            StoredRecord::FAILED if request.on_failed() == idem_core::FailedPolicy::Retry => {
                Found::Free
            }
            _ => Found::Held,
        })
    }

    /// The record.
    pub(crate) fn record(&self) -> Result<Record> {
        self.stored()?.record()
    }

    pub(crate) fn stored(&self) -> Result<StoredRecord<'r>> {
        let metadata = self
            .read::<Option<&[u8]>>(9)?
            .map(str::from_utf8)
            .transpose();
        let metadata = metadata.map_err(|source| {
            Error::corrupt("a record's metadata is not UTF-8").with_source(source)
        })?;
        Ok(StoredRecord {
            state: self.read(0)?,
            token: self.read(1)?,
            attempts: self.read(2)?,
            fingerprint: self.read(3)?,
            created_at: self.read(4)?,
            expires_at: self.read(5)?,
            lease_ends_at: self.read(6)?,
            fails_when_stale: self.read(7)?,
            sealed_at: self.read(8)?,
            metadata,
            result: self.read::<Option<Vec<u8>>>(10)?.map(Bytes::from),
            now: self.read(11)?,
        })
    }
}
