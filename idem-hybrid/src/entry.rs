//! The cache entry of a completed record, and how it is read back without trust.
//!
//! Layout, integers big-endian: `idh` and version `1`; `u32` CRC-32 of all that follows; scope,
//! operation and id, each with its length as `u16`; `i64` token; `u32` attempts; 33 bytes
//! fingerprint; `i64` created, expires, observed and sealed at, in µs on the database's clock;
//! `u32` length and metadata as JSON, nothing where there is none; the rest is the response in its
//! stored form.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use idem_core::backend::{StoredRecord, StoredResult, check, encode_response};
use idem_core::{Completed, Error, Fingerprint, Key, Limits, Record, Result};

const MAGIC: &[u8; 4] = b"idh\x01";
const HEAD: usize = MAGIC.len() + 4;

/// Everything except the key, the metadata and the response.
const FIXED: usize = HEAD + 3 * 2 + 8 + 4 + Fingerprint::BYTES + 4 * 8 + 4;

/// Returns the entry of this record.
///
/// # Errors
///
/// For a record that cannot be encoded, which no store accepts either.
pub(crate) fn encode(key: &Key, record: &Completed) -> Result<Bytes> {
    let any = Limits::DEFAULT.with_max_metadata_bytes(usize::MAX);
    let metadata = check::metadata(&record.info.metadata, &any)?.unwrap_or_default();
    let response = encode_response(&record.response)?;
    let parts = [key.scope(), key.operation(), key.id()];
    let key_bytes: usize = parts.iter().map(|part| part.len()).sum();
    let size = FIXED + key_bytes + metadata.len() + response.len();
    let mut bytes = BytesMut::with_capacity(size);
    bytes.put_slice(MAGIC);
    bytes.put_u32(0);
    for part in parts {
        let length = u16::try_from(part.len()).map_err(|_| too_long("a key"))?;
        bytes.put_u16(length);
        bytes.put_slice(part.as_bytes());
    }
    put_info(&mut bytes, record);
    let length = u32::try_from(metadata.len()).map_err(|_| too_long("metadata"))?;
    bytes.put_u32(length);
    bytes.put_slice(metadata.as_bytes());
    bytes.put_slice(&response);
    let sum = crc32fast::hash(&bytes[HEAD..]);
    bytes[MAGIC.len()..HEAD].copy_from_slice(&sum.to_be_bytes());
    Ok(bytes.freeze())
}

fn put_info(bytes: &mut BytesMut, record: &Completed) {
    let info = &record.info;
    bytes.put_i64(info.token.as_i64());
    bytes.put_u32(info.attempts);
    bytes.put_slice(&info.fingerprint.to_bytes());
    for instant in [
        info.created_at,
        info.expires_at,
        info.observed_at,
        record.sealed_at,
    ] {
        bytes.put_i64(instant.as_micros());
    }
}

/// Returns the record in this entry, as the database would return it `age` later; the response
/// shares the entry's memory. Never panics, whatever the bytes.
///
/// # Errors
///
/// `Corrupt` when the entry is not one of this version, was changed, or is another key's.
pub(crate) fn decode(mut entry: Bytes, key: &Key, age: Duration) -> Result<Completed> {
    if take(&mut entry, MAGIC.len())? != MAGIC[..] {
        return Err(wrong("is not an entry of this version"));
    }
    if take_u32(&mut entry)? != crc32fast::hash(&entry) {
        return Err(wrong("was changed: its checksum is another"));
    }
    for part in [key.scope(), key.operation(), key.id()] {
        let length = usize::from(entry.try_get_u16().map_err(|_| short())?);
        if take(&mut entry, length)? != part {
            return Err(wrong("belongs to another key"));
        }
    }
    match record(entry, age)? {
        Record::Completed(completed) => Ok(completed),
        Record::InFlight(_) | Record::Failed(_) => Err(wrong("is not of a completed record")),
    }
}

fn record(mut entry: Bytes, age: Duration) -> Result<Record> {
    let token = take_i64(&mut entry)?;
    let attempts = take_u32(&mut entry)?;
    let fingerprint = take(&mut entry, Fingerprint::BYTES)?;
    let created_at = take_i64(&mut entry)?;
    let expires_at = take_i64(&mut entry)?;
    let observed_at = take_i64(&mut entry)?;
    let sealed_at = take_i64(&mut entry)?;
    let length = take_u32(&mut entry)? as usize;
    let metadata = take(&mut entry, length)?;
    let metadata = std::str::from_utf8(&metadata).map_err(|_| wrong("has no text in its text"))?;
    if !StoredResult::is_plain_response(&entry) {
        return Err(wrong("holds no response in its plain form"));
    }
    let micros = age.as_nanos().div_ceil(1000);
    let age = i64::try_from(micros).unwrap_or(i64::MAX);
    StoredRecord {
        state: StoredRecord::COMPLETED,
        token,
        attempts: i64::from(attempts),
        fingerprint: &fingerprint,
        created_at,
        expires_at,
        lease_ends_at: 0,
        fails_when_stale: false,
        sealed_at: Some(sealed_at),
        metadata: (!metadata.is_empty()).then_some(metadata),
        result: Some(entry),
        now: observed_at.saturating_add(age),
    }
    .record()
}

fn wrong(what: &str) -> Error {
    Error::corrupt(format!("a cached entry {what}"))
}

fn short() -> Error {
    wrong("is cut short")
}

fn too_long(what: &str) -> Error {
    Error::invalid_input(format!("{what} is too long for an entry"))
}

fn take(bytes: &mut Bytes, length: usize) -> Result<Bytes> {
    (length <= bytes.len())
        .then(|| bytes.split_to(length))
        .ok_or_else(short)
}

fn take_u32(bytes: &mut Bytes) -> Result<u32> {
    bytes.try_get_u32().map_err(|_| short())
}

fn take_i64(bytes: &mut Bytes) -> Result<i64> {
    bytes.try_get_i64().map_err(|_| short())
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_core::{ErrorKind, FencingToken, Metadata, RecordInfo, Response, Timestamp};
    use proptest::prelude::*;

    fn key(id: &str) -> Key {
        Key::new("tenant", "pay", id).unwrap()
    }

    fn completed(body: Vec<u8>, metadata: Metadata) -> Completed {
        let token = FencingToken::from_i64(77);
        let [created, expires, observed, sealed_at] =
            [10, 90, 40, 30].map(|millis| Timestamp::from_micros(millis * 1000));
        Completed {
            info: RecordInfo::new(Fingerprint::raw("request"), token, 3)
                .with_times(created, expires, observed)
                .with_metadata(metadata),
            response: Response::new(201, body).with_header("a", vec![0, 255]),
            sealed_at,
        }
    }

    /// An entry whose checksum is right, whatever its content.
    fn sealed(content: &[u8]) -> Bytes {
        let sum = crc32fast::hash(content).to_be_bytes();
        [&MAGIC[..], &sum[..], content].concat().into()
    }

    proptest! {
        #[test]
        fn an_entry_round_trips(body: Vec<u8>, name in ".{0,9}", value in ".{0,9}", id in "[a-z]{1,9}") {
            let record = completed(body, Metadata::new().with(name, value));
            let entry = encode(&key(&id), &record).unwrap();
            prop_assert_eq!(decode(entry, &key(&id), Duration::ZERO).unwrap(), record);
        }

        #[test]
        fn any_bytes_give_an_answer(bytes: Vec<u8>) {
            prop_assert!(decode(bytes.into(), &key("one"), Duration::MAX).is_err());
        }

        #[test]
        fn any_content_with_a_right_checksum_gives_an_answer(content: Vec<u8>, cut in 0_usize..200) {
            prop_assert!(decode(sealed(&content), &key("one"), Duration::ZERO).is_err());
            let whole = encode(&key("one"), &completed(content, Metadata::new())).unwrap();
            let cut = cut.min(whole.len() - HEAD);
            let _ = decode(sealed(&whole[HEAD..whole.len() - cut]), &key("one"), Duration::ZERO);
        }

        #[test]
        fn one_changed_bit_is_noticed(at in 0_usize..1000, bit in 0_u8..8) {
            let entry = encode(&key("one"), &completed(vec![7; 40], Metadata::new())).unwrap();
            let mut bytes = entry.to_vec();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let error = decode(bytes.into(), &key("one"), Duration::ZERO).unwrap_err();
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn a_compressed_response_is_refused_unread() {
        let record = completed(vec![7; 40], Metadata::new());
        let mut content = encode(&key("one"), &record).unwrap()[HEAD..].to_vec();
        let at = content.len() - encode_response(&record.response).unwrap().len();
        content[at] = 3;
        let error = decode(sealed(&content), &key("one"), Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("plain form"), "{error}");
    }

    #[test]
    fn another_keys_entry_is_refused() {
        let entry = encode(&key("one"), &completed(vec![], Metadata::new())).unwrap();
        for (scope, operation, id) in [
            ("tenant", "pay", "two"),
            ("tenan", "tpay", "one"),
            ("tenant", "payo", "ne"),
            ("Tenant", "pay", "one"),
        ] {
            let other = Key::new(scope, operation, id).unwrap();
            let error = decode(entry.clone(), &other, Duration::ZERO).unwrap_err();
            assert!(error.to_string().contains("another key"), "{error}");
        }
    }

    #[test]
    fn age_is_added_to_the_instant_of_observation_and_rounded_up() {
        let record = completed(vec![], Metadata::new());
        let entry = encode(&key("one"), &record).unwrap();
        let at = |age| decode(entry.clone(), &key("one"), age).unwrap().info;
        let later = at(Duration::from_nanos(20_000_001));
        assert_eq!(later.observed_at.as_micros(), 60_001);
        assert_eq!(later.remaining(), Duration::from_micros(29_999));
        assert!(at(Duration::from_millis(50)).remaining().is_zero());
        assert!(at(Duration::MAX).remaining().is_zero());
        assert_eq!(later.expires_at, record.info.expires_at);
    }
}
