//! The stored form of a record.

use bytes::{Buf, Bytes};
use idem_core::admin::{RecordSummary, SummaryState};
use idem_core::backend::StoredRecord;
use idem_core::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Error, FailedPolicy, FencingToken, Key, Result,
    Timestamp,
};

/// Bytes before the metadata: see `scripts/layout.lua`, which writes them.
const HEADER_BYTES: usize = 100;
const VERSION: u8 = 1;
const FINGERPRINT_BYTES: usize = 33;

/// The position of the attempt id.
const ATTEMPT: std::ops::Range<usize> = 47..63;

/// A record as the server keeps it, in one string value. Integers are big-endian:
///
/// | bytes | what |
/// | --- | --- |
/// | 1 | version, 1 |
/// | 1 | state: 0 in flight, 1 completed, 2 failed, 3 released |
/// | 1 | 1 if it fails when it is stale |
/// | 4 | acquisitions since the key was fresh |
/// | 8 each | token; first seen; end of the retention; end of the lease; when it was sealed, or 0 |
/// | 16 | attempt id |
/// | 33 | fingerprint |
/// | 4 | length of the metadata |
/// | | metadata, as JSON |
/// | | the rest: the result of a sealed record; the checkpoint of one in flight, if there is one |
#[derive(Debug)]
pub(crate) struct Stored {
    bytes: Bytes,
    now: i64,
}

impl Stored {
    /// `now` is the server's clock when it answered.
    pub(crate) fn new(bytes: Vec<u8>, now: i64) -> Self {
        Self {
            bytes: bytes.into(),
            now,
        }
    }

    /// Returns its columns.
    ///
    /// # Errors
    ///
    /// `Corrupt` when it is cut short or of another version.
    pub(crate) fn columns(&self) -> Result<StoredRecord<'_>> {
        let mut columns = self.all_columns()?;
        // In a record in flight, the rest is its holder's checkpoint.
        if columns.state == StoredRecord::IN_FLIGHT {
            columns.result = None;
        }
        Ok(columns)
    }

    /// Returns the summary of the record of this key; `None` for a released one. Of its result or
    /// checkpoint, which has this many bytes, a part suffices.
    pub(crate) fn summary(&self, key: Key, result_bytes: u64) -> Option<RecordSummary> {
        match self.all_columns() {
            Ok(columns) => columns.summary(key, result_bytes),
            Err(_) => {
                let token = FencingToken::from_i64(0);
                let mut summary = RecordSummary::new(key, SummaryState::Unreadable, token);
                summary.observed_at = Timestamp::from_micros(self.now);
                summary.result_bytes = result_bytes;
                Some(summary)
            }
        }
    }

    /// Returns its columns, with the checkpoint of a record in flight as its result.
    fn all_columns(&self) -> Result<StoredRecord<'_>> {
        let mut header = self.bytes.get(..HEADER_BYTES).ok_or_else(short)?;
        let version = header.get_u8();
        if version != VERSION {
            return Err(Error::corrupt(format!(
                "a record has the unknown version {version}; it was written by another version of \
                 this crate, or by another program under the same namespace"
            )));
        }
        let state: i64 = header.get_u8().into();
        let fails_when_stale = header.get_u8() != 0;
        let attempts = header.get_u32().into();
        let mut instants = [0; 5];
        for instant in &mut instants {
            *instant = header.get_i64();
        }
        let [token, created_at, expires_at, lease_ends_at, sealed_at] = instants;
        header.advance(16);
        let fingerprint = &header[..FINGERPRINT_BYTES];
        let metadata_bytes = (&header[FINGERPRINT_BYTES..]).get_u32() as usize;
        let result_at = HEADER_BYTES + metadata_bytes;
        let metadata = self.bytes.get(HEADER_BYTES..result_at).ok_or_else(short)?;
        let metadata = std::str::from_utf8(metadata)
            .map_err(|_| Error::corrupt("a record's metadata is not UTF-8"))?;
        let rest = self.bytes.slice(result_at..);
        Ok(StoredRecord {
            state,
            token,
            attempts,
            fingerprint,
            created_at,
            expires_at,
            lease_ends_at,
            fails_when_stale,
            sealed_at: (sealed_at > 0).then_some(sealed_at),
            metadata: (!metadata.is_empty()).then_some(metadata),
            result: (!rest.is_empty()).then_some(rest),
            now: self.now,
        })
    }

    /// Returns the outcome of a claim that meets this record, if it is live and the claimant may
    /// not write anything; `None` where the script has to decide, such as for a claim that is
    /// stale, or the claimant's own.
    pub(crate) fn answers(&self, request: &ClaimRequest) -> Option<ClaimOutcome> {
        let columns = self.columns().ok()?;
        if columns.state == StoredRecord::RELEASED || columns.expires_at <= self.now {
            return None;
        }
        let is_same = columns.fingerprint == request.fingerprint().to_bytes();
        let is_final = match columns.state {
            StoredRecord::COMPLETED => true,
            StoredRecord::FAILED => request.on_failed() != FailedPolicy::Retry,
            StoredRecord::IN_FLIGHT => {
                columns.lease_ends_at > self.now && !self.is_of(request.attempt())
            }
            _ => false,
        };
        let is_told = !is_same || is_final;
        is_told.then(|| columns.loses(request).ok()).flatten()
    }

    fn is_of(&self, attempt: AttemptId) -> bool {
        self.bytes.get(ATTEMPT) == Some(&attempt.as_bytes()[..])
    }
}

/// Bytes of a claim's token and attempt id.
pub(crate) const OWNER_BYTES: usize = 24;

/// Returns token and attempt id as a record has them.
pub(crate) fn owner(claim: &Claim) -> [u8; OWNER_BYTES] {
    let mut owner = [0; OWNER_BYTES];
    let (token, attempt) = owner.split_at_mut(8);
    token.copy_from_slice(&claim.token().as_i64().to_be_bytes());
    attempt.copy_from_slice(claim.attempt().as_bytes());
    owner
}

/// Returns the first bytes of a fresh claim, up to its instants.
pub(crate) fn head(fails_when_stale: bool) -> [u8; 7] {
    [VERSION, 0, u8::from(fails_when_stale), 0, 0, 0, 1]
}

/// Returns the bytes after its instants.
pub(crate) fn rest(request: &ClaimRequest, metadata: &str) -> Vec<u8> {
    let size = HEADER_BYTES - ATTEMPT.start + metadata.len();
    let mut bytes = Vec::with_capacity(size);
    bytes.extend(request.attempt().as_bytes());
    bytes.extend(request.fingerprint().to_bytes());
    // Metadata has a limit far below that.
    bytes.extend(
        u32::try_from(metadata.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    bytes.extend(metadata.as_bytes());
    bytes
}

fn short() -> Error {
    Error::corrupt("a record is cut short")
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_core::ErrorKind;

    fn written() -> Vec<u8> {
        let mut bytes = vec![VERSION, 1, 1, 0, 0, 0, 2];
        for number in 1..=5_i64 {
            bytes.extend((number * 10).to_be_bytes());
        }
        bytes.extend([9; 16]);
        bytes.extend([3; FINGERPRINT_BYTES]);
        bytes.extend(2_u32.to_be_bytes());
        bytes.extend(b"{}result");
        bytes
    }

    #[test]
    fn every_column_is_at_its_index() {
        let stored = Stored::new(written(), 99);
        let columns = stored.columns().unwrap();
        assert_eq!((columns.state, columns.attempts, columns.token), (1, 2, 10));
        let instants = (
            columns.created_at,
            columns.expires_at,
            columns.lease_ends_at,
        );
        assert_eq!(instants, (20, 30, 40));
        assert_eq!((columns.sealed_at, columns.now), (Some(50), 99));
        assert!(columns.fails_when_stale);
        assert_eq!(columns.fingerprint, [3; FINGERPRINT_BYTES]);
        assert_eq!(columns.metadata, Some("{}"));
        assert_eq!(columns.result.unwrap(), "result");
    }

    #[test]
    fn a_checkpoint_is_for_the_holder_and_its_name_for_the_list() {
        let fingerprint = idem_core::Fingerprint::raw("request").to_bytes();
        let mut bytes = written();
        bytes[1] = 0;
        bytes[63..63 + FINGERPRINT_BYTES].copy_from_slice(&fingerprint);
        bytes.truncate(HEADER_BYTES + 2);
        let point = idem_core::Checkpoint::new("charged", vec![7; 9_000]).unwrap();
        let point = point.encode(&idem_core::Limits::DEFAULT).unwrap();
        bytes.extend(&point[..100]);
        let stored = Stored::new(bytes, 25);
        assert_eq!(stored.columns().unwrap().result, None);
        let key = Key::new("tenant", "pay", "one").unwrap();
        let summary = stored.summary(key, point.len() as u64).unwrap();
        assert_eq!(summary.state, SummaryState::InFlight);
        assert_eq!(summary.checkpoint.as_deref(), Some("charged"));
        assert_eq!(summary.result_bytes, point.len() as u64);
    }

    #[test]
    fn any_bytes_give_an_answer() {
        let whole = written();
        for length in 0..HEADER_BYTES + 2 {
            let stored = Stored::new(whole[..length].to_vec(), 0);
            let error = stored.columns().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{length}");
            let key = Key::new("tenant", "pay", "one").unwrap();
            let summary = stored.summary(key, 7).unwrap();
            assert_eq!(summary.state, SummaryState::Unreadable, "{length}");
        }
        let mut other = whole;
        other[0] = 2;
        let error = Stored::new(other, 0).columns().unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
    }
}
