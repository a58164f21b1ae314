//! From a row to a record.

use idem_core::{
    Bytes, Claim, ClaimOutcome, ClaimRequest, Completed, Error, Failed, FencingToken, Fingerprint,
    InFlight, Metadata, Record, RecordInfo, Result, Sealed, StalePolicy, Timestamp,
};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::decode;

/// The states as they are stored.
pub(crate) const COMPLETED: i16 = 1;
pub(crate) const FAILED: i16 = 2;
pub(crate) const RELEASED: i16 = 3;
const IN_FLIGHT: i16 = 0;

/// The columns that a claim or a read answers with, in the order of the statements.
#[derive(Debug)]
pub(crate) struct Columns<'r>(pub(crate) &'r PgRow);

/// Where the key's columns follow, in answers of batches.
const KEY: usize = 13;

impl Columns<'_> {
    fn read<'r, T>(&'r self, index: usize) -> Result<T>
    where
        T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        self.0.try_get_unchecked(index).map_err(decode)
    }

    fn timestamp(&self, index: usize) -> Result<Timestamp> {
        self.read(index).map(Timestamp::from_micros)
    }

    /// Whether the claim wrote this row.
    pub(crate) fn is_won(&self) -> Result<bool> {
        self.read(0)
    }

    pub(crate) fn token(&self) -> Result<FencingToken> {
        self.read(2).map(FencingToken::from_i64)
    }

    fn attempts(&self) -> Result<u32> {
        let attempts: i32 = self.read(3)?;
        Ok(u32::try_from(attempts).unwrap_or(u32::MAX))
    }

    /// Scope, operation and id of a batch's answer.
    pub(crate) fn key(&self) -> Result<(&str, &str, &str)> {
        Ok((self.read(KEY)?, self.read(KEY + 1)?, self.read(KEY + 2)?))
    }

    /// The claim that this row proves.
    pub(crate) fn claim(&self, request: &ClaimRequest) -> Result<Claim> {
        Ok(Claim::new(
            request.key().clone(),
            self.token()?,
            request.attempt(),
            self.attempts()?,
            self.timestamp(12)?,
            self.timestamp(7)?,
        ))
    }

    /// The answer to a claim.
    pub(crate) fn outcome(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        if self.is_won()? {
            return self.claim(request).map(ClaimOutcome::Acquired);
        }
        let same = self.fingerprint()? == *request.fingerprint();
        // A conflict needs no more than what is known of every record, and the result was not sent.
        let record = if same {
            self.record()?
        } else {
            Record::InFlight(self.in_flight()?)
        };
        Ok(ClaimOutcome::from_record(record, request.fingerprint()))
    }

    /// The record.
    pub(crate) fn record(&self) -> Result<Record> {
        let state: i16 = self.read(1)?;
        match state {
            IN_FLIGHT => self.in_flight().map(Record::InFlight),
            COMPLETED | FAILED => self.sealed(),
            state => Err(Error::corrupt(format!(
                "a record has the unknown state {state}; it was written by another version"
            ))),
        }
    }

    fn in_flight(&self) -> Result<InFlight> {
        let fails: bool = self.read(8)?;
        Ok(InFlight {
            info: self.info()?,
            lease_ends_at: self.timestamp(7)?,
            on_stale: if fails {
                StalePolicy::Fail
            } else {
                StalePolicy::TakeOver
            },
        })
    }

    fn sealed(&self) -> Result<Record> {
        let info = self.info()?;
        let sealed_at: Option<i64> = self.read(9)?;
        let sealed_at = sealed_at.map(Timestamp::from_micros).unwrap_or_default();
        let result: Option<Vec<u8>> = self.read(11)?;
        let result = result.ok_or_else(|| Error::corrupt("a sealed record has no result"))?;
        Ok(match Sealed::decode(Bytes::from(result))? {
            Sealed::Response(response) => Record::Completed(Completed {
                info,
                response,
                sealed_at,
            }),
            Sealed::Failure(failure) => Record::Failed(Failed {
                info,
                failure,
                sealed_at,
            }),
        })
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        Fingerprint::from_bytes(self.read(4)?)
    }

    fn info(&self) -> Result<RecordInfo> {
        let metadata: Option<&str> = self.read(10)?;
        let metadata: Metadata = match metadata {
            None => Metadata::new(),
            Some(text) => serde_json::from_str(text).map_err(|source| {
                Error::corrupt("a record's metadata is not JSON").with_source(source)
            })?,
        };
        let (created, expires, now) = (self.timestamp(5)?, self.timestamp(6)?, self.timestamp(12)?);
        Ok(
            RecordInfo::new(self.fingerprint()?, self.token()?, self.attempts()?)
                .with_times(created, expires, now)
                .with_metadata(metadata),
        )
    }
}
