//! Reads records from rows.

use std::str;

use idem_core::backend::StoredRecord;
use idem_core::{
    Bytes, ClaimRequest, Error, FencingToken, Fingerprint, Record, Result, StalePolicy,
};
use idem_sql::cells::{self, Row};

/// A record in the form of a statement's answer.
///
/// Its short columns come as one: attempt id, then numbers in ASCII, then the fingerprint. The
/// server describes each column of an answer anew, and the driver reads each description. Both
/// costs exceed that of the record itself.
#[derive(Debug)]
pub(crate) struct Columns<'r> {
    row: cells::Columns<'r>,
    attempt: &'r [u8],
    numbers: [i64; NUMBERS],
    fingerprint: &'r [u8],
}

/// How a claim relates to the record that it has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordState {
    /// In flight, and this attempt's own.
    Own,
    /// Expired, released, stale and open to takeover, or failed and to be retried.
    Free,
    /// Stale, and has to be failed.
    Abandoned,
    /// Another caller's, sealed, or in conflict.
    Held,
}

const ATTEMPT_BYTES: usize = 16;

// The order of the numbers.
const STATE: usize = 0;
const TOKEN: usize = 1;
const ATTEMPTS: usize = 2;
const CREATED_AT: usize = 3;
const EXPIRES_AT: usize = 4;
const LEASE_ENDS_AT: usize = 5;
const FAILS_WHEN_STALE: usize = 6;
/// -1: the record is not sealed.
const SEALED_AT: usize = 7;
const NOW: usize = 8;
const NUMBERS: usize = 9;

// The order of the columns.
const HEAD: usize = 0;
const METADATA: usize = 1;
const RESULT: usize = 2;
/// The index of the key's columns, in answers about several keys.
const KEY: usize = 3;

impl<'r> Columns<'r> {
    pub(crate) fn of(row: &'r Row) -> Result<Self> {
        let row = cells::Columns::of(row);
        let head = row.bytes(HEAD)?;
        let unreadable = || Error::corrupt("a record's columns cannot be read");
        let (attempt, rest) = head
            .split_at_checked(ATTEMPT_BYTES)
            .ok_or_else(unreadable)?;
        let end = rest.len().checked_sub(Fingerprint::BYTES);
        let (numbers, fingerprint) = rest.split_at(end.ok_or_else(unreadable)?);
        Ok(Self {
            row,
            attempt,
            numbers: parsed(numbers).ok_or_else(unreadable)?,
            fingerprint,
        })
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::from_i64(self.numbers[TOKEN])
    }

    /// Returns whether this is the retained failure of the acquisition with this token.
    pub(crate) fn is_failed(&self, token: FencingToken) -> bool {
        self.token() == token
            && self.numbers[STATE] == StoredRecord::FAILED
            && self.numbers[EXPIRES_AT] > self.numbers[NOW]
    }

    /// Returns scope, operation and id.
    pub(crate) fn key(&self) -> Result<(&'r [u8], &'r [u8], &'r [u8])> {
        let row = self.row;
        Ok((row.bytes(KEY)?, row.bytes(KEY + 1)?, row.bytes(KEY + 2)?))
    }

    /// Returns how the claim relates to the record, by the clock of the server that read the row.
    pub(crate) fn state_for(&self, request: &ClaimRequest) -> RecordState {
        let (state, now) = (self.numbers[STATE], self.numbers[NOW]);
        if self.numbers[EXPIRES_AT] <= now || state == StoredRecord::RELEASED {
            return RecordState::Free;
        }
        if self.fingerprint != request.fingerprint().to_bytes() {
            return RecordState::Held;
        }
        match state {
            StoredRecord::IN_FLIGHT if self.attempt == request.attempt().as_bytes() => {
                RecordState::Own
            }
            StoredRecord::IN_FLIGHT if self.numbers[LEASE_ENDS_AT] <= now => {
                let fails =
                    self.numbers[FAILS_WHEN_STALE] != 0 || request.on_stale() == StalePolicy::Fail;
                if fails {
                    RecordState::Abandoned
                } else {
                    RecordState::Free
                }
            }
            StoredRecord::FAILED if request.on_failed() == idem_core::FailedPolicy::Retry => {
                RecordState::Free
            }
            _ => RecordState::Held,
        }
    }

    /// Returns the record.
    pub(crate) fn record(&self) -> Result<Record> {
        self.stored()?.record()
    }

    pub(crate) fn stored(&self) -> Result<StoredRecord<'r>> {
        let metadata = self.row.optional_bytes(METADATA)?;
        let metadata = metadata.map(str::from_utf8).transpose();
        let metadata = metadata.map_err(|source| {
            Error::corrupt("a record's metadata is not UTF-8").with_source(source)
        })?;
        let numbers = &self.numbers;
        // In flight, the result is a checkpoint.
        let result = match numbers[STATE] {
            StoredRecord::IN_FLIGHT => None,
            _ => self.row.optional_bytes(RESULT)?.map(Bytes::copy_from_slice),
        };
        Ok(StoredRecord {
            state: numbers[STATE],
            token: numbers[TOKEN],
            attempts: numbers[ATTEMPTS],
            fingerprint: self.fingerprint,
            created_at: numbers[CREATED_AT],
            expires_at: numbers[EXPIRES_AT],
            lease_ends_at: numbers[LEASE_ENDS_AT],
            fails_when_stale: numbers[FAILS_WHEN_STALE] != 0,
            sealed_at: Some(numbers[SEALED_AT]).filter(|&sealed_at| sealed_at >= 0),
            metadata,
            result,
            now: numbers[NOW],
        })
    }
}

/// Parses the numbers between spaces.
fn parsed(text: &[u8]) -> Option<[i64; NUMBERS]> {
    let mut numbers = [0_i64; NUMBERS];
    let mut at = 0;
    let mut negative = false;
    for &byte in text {
        match byte {
            b'0'..=b'9' => {
                let digit = i64::from(byte - b'0');
                let digit = if negative { -digit } else { digit };
                let number = numbers.get_mut(at)?;
                *number = number.checked_mul(10)?.checked_add(digit)?;
            }
            b'-' => negative = true,
            b' ' => {
                at += 1;
                negative = false;
            }
            0 => {}
            _ => return None,
        }
    }
    (at == NUMBERS - 1).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_any_character_set() {
        let text = "1 9223372036854775807 2 3 0 4 1 -1 -9223372036854775808";
        let wanted = [1, i64::MAX, 2, 3, 0, 4, 1, -1, i64::MIN];
        let wide = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(order).collect()
        };
        assert_eq!(parsed(text.as_bytes()), Some(wanted));
        assert_eq!(parsed(&wide(u16::to_be_bytes)), Some(wanted));
        assert_eq!(parsed(&wide(u16::to_le_bytes)), Some(wanted));
        for wrong in [
            "",
            "1 2 3",
            "1 2 3 4 5 6 7 8 9 10",
            "1 2 3 4 5 6 7 8 x",
            "1 2 3 4 5 6 7 8 9223372036854775808",
        ] {
            assert_eq!(parsed(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
