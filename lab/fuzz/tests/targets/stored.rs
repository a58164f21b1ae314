//! Stored forms: results, columns, fingerprints, canonical JSON.

use bytes::Bytes;
use idem_core::backend::{StoredRecord, StoredResult, encode_failure, encode_response};
use idem_core::fingerprint::canonical_json;
use idem_core::{Checkpoint, ErrorKind, Fingerprint, Key, Record};
use idem_fuzz::Input;
use serde_json::Value;

/// What can be decoded is encoded as the same bytes.
#[test]
fn stored_result() {
    check!("stored::stored_result", |bytes: &[u8]| {
        let stored = Bytes::copy_from_slice(bytes);
        let encoded = match StoredResult::decode(stored.clone()) {
            Ok(StoredResult::Response(response)) => encode_response(&response),
            Ok(StoredResult::Failure(failure)) => encode_failure(&failure),
            // Also a compressed one, which this build cannot read.
            Err(error) => {
                let kind = error.kind();
                assert!(matches!(
                    kind,
                    ErrorKind::Corrupt | ErrorKind::Misconfigured
                ));
                return;
            }
        };
        assert_eq!(encoded.unwrap(), stored);
    });
}

/// What can be decoded is encoded as the same bytes.
#[test]
fn checkpoint() {
    check!("stored::checkpoint", |bytes: &[u8]| {
        let stored = Bytes::copy_from_slice(bytes);
        let Ok(point) = Checkpoint::decode(&stored) else {
            return;
        };
        let limits = idem_core::Limits::DEFAULT;
        if let Ok(encoded) = point.encode(&limits) {
            assert_eq!(encoded, stored);
        }
    });
}

/// Columns give a record of their state or an error, and a summary in any case.
#[test]
fn stored_record() {
    check!("stored::stored_record", |bytes: &[u8]| {
        let mut input = Input(bytes);
        let state = i64::from(input.byte() % 6);
        let fingerprint = input.bytes(Fingerprint::BYTES).to_vec();
        let metadata = input.text();
        let stored = StoredRecord {
            state,
            token: input.number(),
            attempts: input.number(),
            fingerprint: &fingerprint,
            created_at: input.number(),
            expires_at: input.number(),
            lease_ends_at: input.number(),
            fails_when_stale: input.byte() % 2 == 1,
            sealed_at: (input.byte() % 2 == 1).then(|| input.number()),
            metadata: (!metadata.is_empty()).then_some(metadata.as_str()),
            now: input.number(),
            result: Some(Bytes::copy_from_slice(input.rest())),
        };
        let length = input.rest().len() as u64;
        let key = Key::new("s", "o", "i").unwrap();
        let summary = stored.clone().summary(key, length);
        assert_eq!(summary.is_none(), state == StoredRecord::RELEASED);
        match stored.record() {
            Ok(record) => {
                let is_in_flight = matches!(record, Record::InFlight(_));
                assert_eq!(is_in_flight, state == StoredRecord::IN_FLIGHT);
                let _ = (record.info().remaining(), format!("{record:?}"));
            }
            Err(error) => {
                let kind = error.kind();
                assert!(matches!(
                    kind,
                    ErrorKind::Corrupt | ErrorKind::Misconfigured
                ));
            }
        }
    });
}

/// A text that is read is printed in one form, which is read as the same.
#[test]
fn fingerprint_text() {
    check!("stored::fingerprint_text", |bytes: &[u8]| {
        if let Ok(stored) = Fingerprint::from_bytes(bytes) {
            assert_eq!(stored.to_string().parse::<Fingerprint>().unwrap(), stored);
        }
        let Ok(Ok(read)) = std::str::from_utf8(bytes).map(str::parse::<Fingerprint>) else {
            return;
        };
        let printed = read.to_string();
        assert_eq!(printed.parse::<Fingerprint>().unwrap(), read);
        // Otherwise two texts stand for one fingerprint, and are compared as texts somewhere.
        assert_eq!(printed.as_bytes(), bytes.to_ascii_lowercase());
    });
}

/// The canonical form is its own, is the value of the document, and is that of another
/// implementation where the two do not differ on purpose.
#[test]
fn canonical() {
    check!("stored::canonical", |bytes: &[u8]| {
        let Ok(ours) = canonical_json(bytes) else {
            return;
        };
        assert_eq!(canonical_json(ours.as_bytes()).unwrap(), ours);
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
            return;
        };
        if has_large_number(bytes) {
            return;
        }
        let theirs = serde_json_canonicalizer::to_string(&value).unwrap();
        assert_eq!(ours, theirs);
    });
}

/// Returns whether a number may be one that no double holds, which keeps its digits, or one whose
/// double `serde_json` does not find.
fn has_large_number(bytes: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    bytes
        .split(|byte| !is_digit(byte))
        .any(|number| number.len() > 15 || number.iter().any(|byte| b"eE".contains(byte)))
}

/// Returns the integer of a form such as `-1.25e+22`.
fn without_exponent(text: &str) -> String {
    let Some((mantissa, exponent)) = text.split_once("e+") else {
        return text.to_owned();
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let zeros = exponent.parse::<usize>().unwrap() - fraction.len();
    format!("{whole}{fraction}{}", "0".repeat(zeros))
}

/// An integer keeps its exact digits, whatever its size.
#[test]
fn canonical_integer() {
    check!("stored::canonical_integer", |bytes: &[u8]| {
        let mut input = Input(bytes);
        let is_negative = input.byte() % 2 == 1;
        let digits = input
            .rest()
            .iter()
            .take(60)
            .map(|byte| (b'0' + byte % 10) as char);
        let digits: String = digits.collect();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return;
        }
        let text = format!("{}{digits}", if is_negative { "-" } else { "" });
        let ours = canonical_json(text.as_bytes()).unwrap();
        // A form with an exponent has the same digits before its zeros.
        assert_eq!(without_exponent(&ours), text);
    });
}
