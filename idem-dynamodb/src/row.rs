//! From an item to a record.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use idem_core::admin::{RecordSummary, SummaryState};
use idem_core::backend::decision::{RecordFacts, RecordState};
use idem_core::backend::{LISTED_RESULT_BYTES, StoredRecord};
use idem_core::{
    AttemptId, Bytes, ClaimOutcome, ClaimRequest, Error, FencingToken, Fingerprint, Key, Record,
    Result, StalePolicy, Timestamp,
};

use crate::statements::{Writer, attribute, binary, number};

/// The attributes of an item.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// A record's item, as a read or a refused write returns it.
#[derive(Clone)]
pub(crate) struct Row(Item);

impl Row {
    pub(crate) fn new(item: Item) -> Self {
        Self(item)
    }

    /// Returns the partition key.
    pub(crate) fn partition(&self) -> Option<&str> {
        self.0.get(attribute::KEY)?.as_s().ok().map(String::as_str)
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<i64> {
        let number = self.0.get(name).and_then(|value| value.as_n().ok());
        let number = number.and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| unreadable(name))
    }

    fn optional(&self, name: &'static str) -> Result<Option<i64>> {
        match self.0.contains_key(name) {
            true => self.number(name).map(Some),
            false => Ok(None),
        }
    }

    pub(crate) fn bytes(&self, name: &'static str) -> Result<&[u8]> {
        let bytes = self.0.get(name).and_then(|value| value.as_b().ok());
        bytes.map(AsRef::as_ref).ok_or_else(|| unreadable(name))
    }

    fn text(&self, name: &'static str) -> Option<&str> {
        self.0.get(name)?.as_s().ok().map(String::as_str)
    }

    pub(crate) fn state(&self) -> Result<i64> {
        self.number(attribute::STATE)
    }

    pub(crate) fn token(&self) -> Result<FencingToken> {
        self.number(attribute::TOKEN).map(FencingToken::from_i64)
    }

    /// Returns the stored result, whatever the state.
    pub(crate) fn result(&self) -> Option<&[u8]> {
        self.bytes(attribute::RESULT).ok()
    }

    /// Takes the record's checkpoint out of the row.
    pub(crate) fn take_checkpoint(&mut self) -> Result<Option<Bytes>> {
        self.take(attribute::CHECKPOINT)
    }

    fn take(&mut self, name: &'static str) -> Result<Option<Bytes>> {
        match self.0.remove(name) {
            Some(AttributeValue::B(blob)) => Ok(Some(Bytes::from(blob.into_inner()))),
            None => Ok(None),
            Some(_) => Err(unreadable(name)),
        }
    }

    /// Returns whether the record is live at this instant.
    pub(crate) fn is_live(&self, now: i64) -> Result<bool> {
        Ok(self.number(attribute::EXPIRES_AT)? > now)
    }

    /// Returns the record after it was failed as abandoned at this instant.
    pub(crate) fn abandoned(mut self, failure: &[u8], now: i64) -> Self {
        let values = [
            (attribute::STATE, number(StoredRecord::FAILED)),
            (attribute::ATTEMPT, binary(AttemptId::NIL.as_bytes())),
            (attribute::RESULT, binary(failure)),
            (attribute::SEALED_AT, number(now)),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value));
        self.0.extend(values);
        self.0.remove(attribute::FAILS_WHEN_STALE);
        self.0.remove(attribute::CHECKPOINT);
        self
    }

    /// Returns whether this call has written it last: a try of the SDK whose answer was lost.
    pub(crate) fn is_written_by(&self, writer: &Writer) -> bool {
        let written = self.bytes(attribute::WRITER);
        written.is_ok_and(|written| written == writer.as_bytes())
    }

    /// Returns the part that decisions depend on.
    pub(crate) fn facts(&self) -> Result<RecordFacts> {
        let state = match self.state()? {
            StoredRecord::IN_FLIGHT => RecordState::InFlight,
            StoredRecord::COMPLETED => RecordState::Completed,
            StoredRecord::FAILED => RecordState::Failed,
            StoredRecord::RELEASED => RecordState::Released,
            _ => return Err(unreadable(attribute::STATE)),
        };
        Ok(RecordFacts {
            state,
            fingerprint: Fingerprint::from_bytes(self.bytes(attribute::FINGERPRINT)?)?,
            token: self.token()?,
            attempt: AttemptId::try_from(self.bytes(attribute::ATTEMPT)?)?,
            on_stale: match self.fails_when_stale() {
                true => StalePolicy::Fail,
                false => StalePolicy::TakeOver,
            },
            lease_ends_at: Timestamp::from_micros(self.number(attribute::LEASE_ENDS_AT)?),
            expires_at: Timestamp::from_micros(self.number(attribute::EXPIRES_AT)?),
        })
    }

    pub(crate) fn fails_when_stale(&self) -> bool {
        self.0.contains_key(attribute::FAILS_WHEN_STALE)
    }

    /// Returns the outcome for a claim that may not have the key.
    pub(crate) fn loses(mut self, request: &ClaimRequest, now: i64) -> Result<ClaimOutcome> {
        let result = self.take(attribute::RESULT)?;
        self.stored(result, now)?.loses(request)
    }

    /// Returns the record, if it is live.
    pub(crate) fn record(mut self, now: i64) -> Result<Option<Record>> {
        if !self.is_live(now)? {
            return Ok(None);
        }
        let result = self.take(attribute::RESULT)?;
        self.stored(result, now)?.record().map(Some)
    }

    /// Drops most of the result or checkpoint, of which a list returns only the beginning. Returns
    /// how many bytes it had.
    pub(crate) fn shorten(&mut self) -> u64 {
        let name = match self.state() {
            Ok(StoredRecord::IN_FLIGHT) => attribute::CHECKPOINT,
            _ => attribute::RESULT,
        };
        let Some(AttributeValue::B(blob)) = self.0.remove(name) else {
            return 0;
        };
        let body = blob.into_inner();
        let bytes = body.len() as u64;
        let listed = body[..body.len().min(LISTED_RESULT_BYTES)].to_vec();
        self.0.insert(
            attribute::RESULT.to_owned(),
            AttributeValue::B(listed.into()),
        );
        bytes
    }

    /// Returns the summary of a record, which had this many bytes of result or checkpoint before it
    /// was [shortened](Self::shorten); `None` for a released one.
    pub(crate) fn summary(mut self, key: Key, bytes: u64, now: i64) -> Option<RecordSummary> {
        let body = self.take(attribute::RESULT);
        if let Ok(stored) = body.and_then(|body| self.stored(body, now)) {
            return stored.summary(key, bytes);
        }
        let token = self.token().unwrap_or(FencingToken::from_i64(0));
        let mut summary = RecordSummary::new(key, SummaryState::Unreadable, token);
        summary.observed_at = Timestamp::from_micros(now);
        summary.result_bytes = bytes;
        Some(summary)
    }

    /// Returns the record as observed now. Another client whose clock is ahead may have written it,
    /// so it is observed no earlier than it was written.
    fn stored(&self, result: Option<Bytes>, now: i64) -> Result<StoredRecord<'_>> {
        let created_at = self.number(attribute::CREATED_AT)?;
        let sealed_at = self.optional(attribute::SEALED_AT)?;
        Ok(StoredRecord {
            state: self.state()?,
            token: self.number(attribute::TOKEN)?,
            attempts: self.number(attribute::ATTEMPTS)?,
            fingerprint: self.bytes(attribute::FINGERPRINT)?,
            created_at,
            expires_at: self.number(attribute::EXPIRES_AT)?,
            lease_ends_at: self.number(attribute::LEASE_ENDS_AT)?,
            fails_when_stale: self.fails_when_stale(),
            sealed_at,
            metadata: self.text(attribute::METADATA),
            result,
            now: now.max(created_at).max(sealed_at.unwrap_or(now)),
        })
    }
}

/// Returns the whole seconds that hold all of these microseconds, for the TTL attribute.
pub(crate) fn whole_seconds(micros: i64) -> i64 {
    let second = i64::try_from(Duration::from_secs(1).as_micros()).unwrap_or(1_000_000);
    micros / second + i64::from(micros % second > 0)
}

fn unreadable(name: &'static str) -> Error {
    Error::corrupt(format!(
        "a record has no readable `{name}`; it was written by another version or by a person"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_core::ErrorKind;

    #[test]
    fn unreadable_attributes_are_corrupt() {
        let row = |name: &str, value: AttributeValue| Row::new([(name.to_owned(), value)].into());
        let text = row("state", AttributeValue::S("late".into()));
        assert_eq!(text.state().unwrap_err().kind(), ErrorKind::Corrupt);
        let large = row("token", AttributeValue::N("9223372036854775808".into()));
        assert_eq!(large.token().unwrap_err().kind(), ErrorKind::Corrupt);
        assert!(large.facts().is_err());
        let mut number = row("checkpoint", AttributeValue::N("7".into()));
        assert!(number.take_checkpoint().is_err());
        assert_eq!(Row::new(Item::new()).result(), None);
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(whole_seconds(0), 0);
        assert_eq!(whole_seconds(1), 1);
        assert_eq!(whole_seconds(1_000_000), 1);
        assert_eq!(whole_seconds(1_000_001), 2);
    }
}
