//! From a document to a record.

use idem_core::admin::{RecordSummary, SummaryState};
use idem_core::backend::{LISTED_RESULT_BYTES, StoredRecord};
use idem_core::{
    AttemptId, Bytes, ClaimOutcome, Error, FailedPolicy, FencingToken, Key, Record, Result,
    Timestamp,
};
use mongodb::bson::{Bson, Document};

use crate::statements::ClaimParams;

/// A record's document, as a read or a claim returns it.
#[derive(Debug, Clone)]
pub(crate) struct Row(Document);

impl Row {
    pub(crate) fn new(document: Document) -> Self {
        Self(document)
    }

    pub(crate) fn id(&self) -> Option<&str> {
        self.0.get_str("_id").ok()
    }

    pub(crate) fn number(&self, field: &'static str) -> Result<i64> {
        match self.0.get(field) {
            Some(Bson::Int64(number)) => Ok(*number),
            // A person may have written the number in a shell.
            Some(Bson::Int32(number)) => Ok(i64::from(*number)),
            _ => Err(unreadable(field)),
        }
    }

    fn optional(&self, field: &'static str) -> Result<Option<i64>> {
        match self.0.contains_key(field) {
            true => self.number(field).map(Some),
            false => Ok(None),
        }
    }

    pub(crate) fn bytes(&self, field: &'static str) -> Result<&[u8]> {
        let bytes = self.0.get_binary_generic(field);
        bytes.map(Vec::as_slice).map_err(|_| unreadable(field))
    }

    pub(crate) fn state(&self) -> Result<i64> {
        self.number("state")
    }

    /// Takes the record's result out of the row.
    pub(crate) fn take_result(&mut self) -> Result<Option<Bytes>> {
        self.take("result")
    }

    /// Takes the record's checkpoint out of the row.
    pub(crate) fn take_checkpoint(&mut self) -> Result<Option<Bytes>> {
        self.take("checkpoint")
    }

    fn take(&mut self, field: &'static str) -> Result<Option<Bytes>> {
        match self.0.remove(field) {
            Some(Bson::Binary(binary)) => Ok(Some(Bytes::from(binary.bytes))),
            None => Ok(None),
            Some(_) => Err(unreadable(field)),
        }
    }

    /// Returns whether the record was live when it was read.
    pub(crate) fn is_live(&self) -> Result<bool> {
        Ok(self.number("expires_at")? > self.number("now")?)
    }

    /// Returns whether the record was in flight and live when it was read.
    pub(crate) fn is_held(&self) -> Result<bool> {
        Ok(self.state()? == StoredRecord::IN_FLIGHT && self.is_live()?)
    }

    /// Refuses a record whose token cannot grow, because no caller can acquire its key.
    ///
    /// # Errors
    ///
    /// `Corrupt`, with instructions.
    pub(crate) fn check_token(&self) -> Result<()> {
        match self.number("token")? {
            i64::MAX => Err(Error::corrupt(
                "the key's token is the largest there is; a clock was far ahead, or somebody has written the record: \
                 nobody can claim the key until its document is deleted",
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether this read denies the key to the claim, by the same rules as the update of a
    /// claim.
    pub(crate) fn is_held_against(&self, params: &ClaimParams<'_>) -> Result<bool> {
        let request = params.request;
        if !self.is_live()? {
            return Ok(false);
        }
        if self.bytes("fingerprint")? != request.fingerprint().to_bytes() {
            return Ok(true);
        }
        Ok(match self.state()? {
            StoredRecord::IN_FLIGHT => {
                let own = self.bytes("attempt_id")? == request.attempt().as_bytes();
                let stale = self.number("lease_ends_at")? <= self.number("now")?;
                !own && !stale
            }
            StoredRecord::FAILED => request.on_failed() == FailedPolicy::Replay,
            _ => true,
        })
    }

    /// Returns the outcome for a claim that may not have the key.
    pub(crate) fn loses(mut self, params: &ClaimParams<'_>) -> Result<ClaimOutcome> {
        let result = self.take_result()?;
        let now = self.number("now")?;
        self.stored(result, now)?.loses(params.request)
    }

    /// Returns the record, if it is live.
    pub(crate) fn record(mut self) -> Result<Option<Record>> {
        if !self.is_live()? {
            return Ok(None);
        }
        let result = self.take_result()?;
        let now = self.number("now")?;
        self.stored(result, now)?.record().map(Some)
    }

    /// Returns the outcome of a claim's update. If the record carries this attempt's id in flight,
    /// it is the claim. If the update has failed the record, it is a failure. If another caller was
    /// first, it is `None`.
    ///
    /// The end of the lease, or the time of the failure, shows the clock of the update.
    pub(crate) fn decided(
        &self,
        params: &ClaimParams<'_>,
        failure: &Bytes,
    ) -> Result<Option<ClaimOutcome>> {
        let request = params.request;
        let same = self.bytes("fingerprint")? == request.fingerprint().to_bytes();
        let attempt = self.bytes("attempt_id")?;
        match self.state()? {
            StoredRecord::IN_FLIGHT if same && attempt == request.attempt().as_bytes() => {
                let now = self.number("lease_ends_at")? - params.lease;
                let claim = self.stored(None, now)?.claim(request);
                Ok(Some(ClaimOutcome::Acquired(claim)))
            }
            // A claim that retries failures would have put a live failed record in flight again;
            // for any other claim the outcome is the same.
            StoredRecord::FAILED if same && attempt == AttemptId::NIL.as_bytes() => {
                let now = self.number("sealed_at")?;
                let stored = self.stored(Some(failure.clone()), now)?;
                stored.loses(request).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns the outcome of a claim in a batch, from the record that a read found after it; `None`
    /// where the claim has to be sent by itself.
    ///
    /// The record in flight with the id of this call proves the claim. Only the update of a single
    /// claim gives one of an earlier call of the attempt a new lease.
    pub(crate) fn decided_by_batch(self, params: &ClaimParams<'_>) -> Result<Option<ClaimOutcome>> {
        if self.is_held_against(params)? {
            return self.loses(params).map(Some);
        }
        if !self.is_held()? || self.0.get_object_id("call").ok() != Some(params.call) {
            return Ok(None);
        }
        // The end of the lease shows the clock of the update, in whole milliseconds as every clock.
        let claimed_at = self.number("lease_ends_at")? - params.lease;
        let claim = self.stored(None, claimed_at)?.claim(params.request);
        Ok(Some(ClaimOutcome::Acquired(claim)))
    }

    /// Keeps the first [`LISTED_RESULT_BYTES`] of the body that a list has read.
    pub(crate) fn listed(mut document: Document) -> Self {
        if let Some(Bson::Binary(body)) = document.get_mut("body") {
            body.bytes.truncate(LISTED_RESULT_BYTES);
            body.bytes.shrink_to_fit();
        }
        Self(document)
    }

    /// Returns the summary of a record that a list has read; `None` for a released one.
    pub(crate) fn summary(mut self, key: Key) -> Option<RecordSummary> {
        let body = self.take("body");
        let bytes = self.number("body_bytes").unwrap_or_default();
        let bytes = u64::try_from(bytes).unwrap_or_default();
        let now = self.number("now").unwrap_or_default();
        let stored = body.and_then(|body| {
            let mut stored = self.stored(body, now)?;
            // Of a failure that was too large to be read, nothing is known.
            if stored.state == StoredRecord::FAILED && bytes > 0 {
                stored.result.get_or_insert_default();
            }
            Ok(stored)
        });
        if let Ok(stored) = stored {
            return stored.summary(key, bytes);
        }
        let token = self.number("token").unwrap_or_default();
        let token = FencingToken::from_i64(token);
        let mut summary = RecordSummary::new(key, SummaryState::Unreadable, token);
        summary.observed_at = Timestamp::from_micros(now);
        summary.result_bytes = bytes;
        Some(summary)
    }

    fn stored(&self, result: Option<Bytes>, now: i64) -> Result<StoredRecord<'_>> {
        Ok(StoredRecord {
            state: self.state()?,
            token: self.number("token")?,
            attempts: self.number("attempts")?,
            fingerprint: self.bytes("fingerprint")?,
            created_at: self.number("created_at")?,
            expires_at: self.number("expires_at")?,
            lease_ends_at: self.number("lease_ends_at")?,
            fails_when_stale: self.0.contains_key("sweep_at"),
            sealed_at: self.optional("sealed_at")?,
            metadata: self.0.get_str("metadata").ok(),
            result,
            now,
        })
    }

    pub(crate) fn instant(&self, field: &'static str) -> Result<Timestamp> {
        self.number(field).map(Timestamp::from_micros)
    }
}

fn unreadable(field: &'static str) -> Error {
    Error::corrupt(format!(
        "a record has no readable `{field}`; it was written by another version or by a person"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_core::ErrorKind;
    use mongodb::bson::doc;

    #[test]
    fn unreadable_fields_are_corrupt() {
        let row = Row::new(doc! { "_id": "a:b:c", "expires_at": 5_i64, "now": "late" });
        assert_eq!(row.is_live().unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(row.state().unwrap_err().kind(), ErrorKind::Corrupt);
        assert!(Row::new(doc! { "result": 7 }).take_result().is_err());
        assert_eq!(Row::new(doc! {}).take_result().unwrap(), None);
    }
}
