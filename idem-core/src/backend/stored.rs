//! [`StoredRecord`]: a record in the columns that backends keep, and how it is read.

use std::fmt;

use bytes::Bytes;

use crate::admin::{RecordSummary, SummaryState};
use crate::backend::StoredResult;
use crate::backend::stored_result::failure_code;
use crate::{
    Checkpoint, Claim, ClaimOutcome, ClaimRequest, Completed, Error, ErrorKind, Failed,
    FencingToken, Fingerprint, InFlight, Key, Metadata, Record, RecordInfo, Result, StalePolicy,
    Timestamp,
};

/// Of the stored result or checkpoint, a list reads only this many bytes, which have a failure's
/// code and a checkpoint's name.
pub const LISTED_RESULT_BYTES: usize = 4 << 10;

/// The columns of a record, for backends that keep it in columns or fields. Instants are
/// microseconds since 1970 on the store's clock.
///
/// `Debug` shows the lengths of metadata and result, not their contents.
#[derive(Clone)]
pub struct StoredRecord<'r> {
    /// One of the constants below.
    pub state: i64,
    /// The fencing token.
    pub token: i64,
    /// Acquisitions since the key was fresh.
    pub attempts: i64,
    /// [`Fingerprint::to_bytes`].
    pub fingerprint: &'r [u8],
    /// First seen.
    pub created_at: i64,
    /// End of the retention.
    pub expires_at: i64,
    /// End of the lease.
    pub lease_ends_at: i64,
    /// Whether the record fails when it is stale, instead of being taken over.
    pub fails_when_stale: bool,
    /// When it was completed or failed.
    pub sealed_at: Option<i64>,
    /// The metadata as JSON.
    pub metadata: Option<&'r str>,
    /// The result of [`encode_response`](crate::backend::encode_response) or
    /// [`encode_failure`](crate::backend::encode_failure). Not needed for a claimant in conflict.
    pub result: Option<Bytes>,
    /// The clock when the store answered.
    pub now: i64,
}

impl fmt::Debug for StoredRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRecord")
            .field("state", &self.state)
            .field("token", &self.token)
            .field("attempts", &self.attempts)
            .field("created_at", &self.created_at)
            .field("expires_at", &self.expires_at)
            .field("lease_ends_at", &self.lease_ends_at)
            .field("fails_when_stale", &self.fails_when_stale)
            .field("sealed_at", &self.sealed_at)
            .field("metadata_bytes", &self.metadata.map(str::len))
            .field("result_bytes", &self.result.as_ref().map(Bytes::len))
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl StoredRecord<'_> {
    /// Claimed, without a result.
    pub const IN_FLIGHT: i64 = 0;
    /// Sealed with a response.
    pub const COMPLETED: i64 = 1;
    /// Sealed with a failure.
    pub const FAILED: i64 = 2;
    /// Given up; as good as absent, except for its token.
    pub const RELEASED: i64 = 3;

    /// Returns the claim that this record proves, when the request wrote it.
    pub fn claim(&self, request: &ClaimRequest) -> Claim {
        Claim::new(
            request.key().clone(),
            FencingToken::from_i64(self.token),
            request.attempt(),
            self.attempts(),
            Timestamp::from_micros(self.now),
            Timestamp::from_micros(self.lease_ends_at),
        )
    }

    /// Returns the outcome of a claim that meets this record of another attempt.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when a column cannot be decoded.
    pub fn loses(self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let same = self.fingerprint()? == *request.fingerprint();
        // A conflict needs no more than the parts that every record has.
        let record = if same {
            self.record()?
        } else {
            Record::InFlight(self.in_flight()?)
        };
        Ok(ClaimOutcome::from_record(record, request.fingerprint()))
    }

    /// Decodes the record.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when a column cannot be decoded.
    pub fn record(self) -> Result<Record> {
        match self.state {
            Self::IN_FLIGHT => self.in_flight().map(Record::InFlight),
            Self::COMPLETED | Self::FAILED => self.sealed(),
            state => Err(Error::corrupt(format!(
                "a record has the unknown state {state}; it was written by another version"
            ))),
        }
    }

    /// Returns the summary of the record of this key; `None` for a released one. `result` is not
    /// needed for a completed record; of others, only its first [`LISTED_RESULT_BYTES`] of
    /// `result_bytes`.
    #[must_use]
    pub fn summary(self, key: Key, result_bytes: u64) -> Option<RecordSummary> {
        let state = match self.state {
            Self::RELEASED => return None,
            _ if self.expires_at <= self.now => SummaryState::Expired,
            Self::IN_FLIGHT if self.lease_ends_at <= self.now => SummaryState::Stale,
            Self::IN_FLIGHT => SummaryState::InFlight,
            Self::COMPLETED => SummaryState::Completed,
            Self::FAILED => SummaryState::Failed,
            _ => SummaryState::Unreadable,
        };
        let mut summary = RecordSummary::new(key, state, FencingToken::from_i64(self.token));
        summary.attempts = self.attempts();
        summary.created_at = Timestamp::from_micros(self.created_at);
        summary.expires_at = Timestamp::from_micros(self.expires_at);
        summary.observed_at = Timestamp::from_micros(self.now);
        summary.sealed_at = self.sealed_at.map(Timestamp::from_micros);
        summary.result_bytes = result_bytes;
        if self.state == Self::IN_FLIGHT {
            summary.lease_ends_at = Some(Timestamp::from_micros(self.lease_ends_at));
        }
        if self.fails_when_stale {
            summary.on_stale = StalePolicy::Fail;
        }
        match self.info() {
            Ok(info) => summary.metadata = info.metadata,
            Err(_) => summary.state = SummaryState::Unreadable,
        }
        if self.state == Self::IN_FLIGHT {
            match self.result.as_ref().map(Checkpoint::decode).transpose() {
                Ok(point) => summary.checkpoint = point.map(|point| point.name().to_owned()),
                Err(_) => summary.state = SummaryState::Unreadable,
            }
        } else if self.state == Self::FAILED {
            let known = self.result.map(|result| {
                let is_whole = result.len() as u64 == result_bytes;
                (is_whole, failure_code(result))
            });
            match known {
                Some((_, Ok(code))) => summary.failure_code = Some(code),
                Some((false, Err(_))) => {}
                Some((true, Err(error))) if error.kind() == ErrorKind::Misconfigured => {}
                Some((true, Err(_))) | None => summary.state = SummaryState::Unreadable,
            }
        }
        Some(summary)
    }

    fn in_flight(&self) -> Result<InFlight> {
        Ok(InFlight {
            info: self.info()?,
            lease_ends_at: Timestamp::from_micros(self.lease_ends_at),
            on_stale: if self.fails_when_stale {
                StalePolicy::Fail
            } else {
                StalePolicy::TakeOver
            },
        })
    }

    fn sealed(self) -> Result<Record> {
        let info = self.info()?;
        let sealed_at = Timestamp::from_micros(self.sealed_at.unwrap_or_default());
        let result = self
            .result
            .ok_or_else(|| Error::corrupt("a sealed record has no result"))?;
        Ok(match StoredResult::decode(result)? {
            StoredResult::Response(response) => Record::Completed(Completed {
                info,
                response,
                sealed_at,
            }),
            StoredResult::Failure(failure) => Record::Failed(Failed {
                info,
                failure,
                sealed_at,
            }),
        })
    }

    fn info(&self) -> Result<RecordInfo> {
        let metadata: Metadata = match self.metadata {
            None => Metadata::new(),
            Some(text) => serde_json::from_str(text).map_err(|source| {
                Error::corrupt("a record's metadata is not JSON").with_source(source)
            })?,
        };
        let token = FencingToken::from_i64(self.token);
        let times = [self.created_at, self.expires_at, self.now].map(Timestamp::from_micros);
        let [created_at, expires_at, now] = times;
        Ok(RecordInfo::new(self.fingerprint()?, token, self.attempts())
            .with_times(created_at, expires_at, now)
            .with_metadata(metadata))
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        Fingerprint::from_bytes(self.fingerprint)
    }

    fn attempts(&self) -> u32 {
        u32::try_from(self.attempts).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{encode_failure, encode_response};
    use crate::{Failure, Response};

    fn stored(fingerprint: &[u8]) -> StoredRecord<'_> {
        StoredRecord {
            state: StoredRecord::COMPLETED,
            token: 7,
            attempts: 2,
            fingerprint,
            created_at: 1,
            expires_at: 90,
            lease_ends_at: 20,
            fails_when_stale: false,
            sealed_at: Some(10),
            metadata: Some(r#"{"host":"a"}"#),
            result: encode_response(&Response::new(201, "made")).ok(),
            now: 15,
        }
    }

    #[test]
    fn a_record_is_read_from_its_columns() {
        let fingerprint = Fingerprint::raw("request").to_bytes();
        let Record::Completed(record) = stored(&fingerprint).record().unwrap() else {
            panic!("not completed");
        };
        assert_eq!(record.response, Response::new(201, "made"));
        assert_eq!(record.sealed_at.as_micros(), 10);
        assert_eq!(record.info.metadata.get("host"), Some("a"));
        assert_eq!((record.info.token.as_i64(), record.info.attempts), (7, 2));
        assert_eq!(record.info.remaining().as_micros(), 75);
    }

    #[test]
    fn a_claimant_in_conflict_needs_no_result() {
        let fingerprint = Fingerprint::raw("another").to_bytes();
        let key = Key::new("tenant", "pay", "one").unwrap();
        let request = ClaimRequest::new(key, Fingerprint::raw("request"));
        let mut record = stored(&fingerprint);
        record.result = None;
        assert_eq!(record.loses(&request).unwrap().name(), "conflict");
    }

    #[test]
    fn an_unreadable_row_is_corrupt() {
        let fingerprint = Fingerprint::raw("request").to_bytes();
        let wrong: [fn(&mut StoredRecord<'_>); 5] = [
            |record| record.state = 9,
            |record| record.state = StoredRecord::RELEASED,
            |record| record.result = None,
            |record| record.result = Some(Bytes::from_static(b"\x09")),
            |record| record.metadata = Some("not JSON"),
        ];
        for change in wrong {
            let mut record = stored(&fingerprint);
            change(&mut record);
            assert_eq!(record.record().unwrap_err().kind(), ErrorKind::Corrupt);
        }
        assert!(stored(&fingerprint[1..]).record().is_err());
    }

    #[test]
    fn a_summary_tells_the_state_by_the_clock() {
        let fingerprint = Fingerprint::raw("request").to_bytes();
        let summary = |change: fn(&mut StoredRecord<'_>), bytes| {
            let mut record = stored(&fingerprint);
            change(&mut record);
            if record.state == StoredRecord::IN_FLIGHT {
                record.result = None;
            }
            let key = Key::new("tenant", "pay", "one").unwrap();
            record.summary(key, bytes).map(|summary| summary.state)
        };
        assert_eq!(summary(|_| {}, 11), Some(SummaryState::Completed));
        assert_eq!(
            summary(|record| record.now = 90, 11),
            Some(SummaryState::Expired)
        );
        assert_eq!(
            summary(|record| record.state = 0, 0),
            Some(SummaryState::InFlight)
        );
        let stale: fn(&mut StoredRecord<'_>) = |record| {
            record.state = 0;
            record.now = 20;
        };
        assert_eq!(summary(stale, 0), Some(SummaryState::Stale));
        assert_eq!(summary(|record| record.state = 3, 0), None);
        assert_eq!(
            summary(|record| record.state = 9, 0),
            Some(SummaryState::Unreadable)
        );
        let broken: fn(&mut StoredRecord<'_>) = |record| record.metadata = Some("not JSON");
        assert_eq!(summary(broken, 11), Some(SummaryState::Unreadable));
    }

    #[test]
    fn a_summary_has_the_code_that_the_first_bytes_hold() {
        let fingerprint = Fingerprint::raw("request").to_bytes();
        let code = |failure: &Failure, listed: usize| {
            let whole = encode_failure(failure).unwrap();
            let mut record = stored(&fingerprint);
            record.state = StoredRecord::FAILED;
            record.result = Some(whole.slice(..listed.min(whole.len())));
            let key = Key::new("tenant", "pay", "one").unwrap();
            let summary = record.summary(key, whole.len() as u64).unwrap();
            assert_eq!(summary.state, SummaryState::Failed);
            summary.failure_code
        };
        let failure = Failure::new("declined", "no funds").with_details(vec![7; 9_000]);
        assert_eq!(code(&failure, 4096).as_deref(), Some("declined"));
        assert_eq!(code(&Failure::new("c".repeat(5_000), ""), 4096), None);
    }
}
